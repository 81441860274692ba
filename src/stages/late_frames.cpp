#include "stages/late_frames.h"

#include <cstring>

#include "base/error.h"
#include "models/wan_vae/wan_vae.h"
#include "tensor/transfer.h"

namespace tachy {

Tensor LateFrames::mark_of(const Tensor& pixels) {
  const Tensor last = pixels.slice(0, pixels.numel() - 4, pixels.numel());
  return Tensor(last.data, DType::i32, {1}, last.device);
}

LateFrames::LateFrames(const Tensor& pixels, PinnedSlots& slots, Stream& stream, Take take)
    : pixels_(pixels),
      slots_(slots),
      stream_(stream),
      memory_(*StreamingMemory::of(stream.memory)),
      take_(std::move(take)) {
  slots_.make(memory_, static_cast<size_t>(pixels.numel()), kOnTheWay + 1);
  zero(mark_of(pixels), stream);
}

LateFrames::~LateFrames() {
  try {
    if (!fetches_.empty()) stream_.memory->synchronize();
  } catch (...) {  // the device has failed, and no copy is under way any more
  }
}

void LateFrames::hand_out_oldest() {
  const Fetch next = fetches_.front();
  {
    const ProfileRange part(stream_.hooks.profiler, "copy to host", ProfileKind::output);
    since_ = wait_.until(
        [&] {
          stream_.throw_if_cancelled();
          return memory_.fetched(next.slot);
        },
        since_);
  }
  fetches_.pop_front();
  uint8_t* const there = slots_.slot(next.slot);
  int32_t mark = 0;
  std::memcpy(&mark, there + pixels_.numel() - 4, sizeof mark);
  check(mark == 0, ErrorCode::numerical, "{}", VaeDecoder::not_finite(next.first));
  const ProfileRange part(stream_.hooks.profiler, "frames out", ProfileKind::output);
  take_(there, next.first, next.count);
}

void LateFrames::fetch(int64_t first, int64_t count) {
  if (fetches_.size() == kOnTheWay) hand_out_oldest();
  memory_.fetch(slots_.slot(next_slot_), pixels_.data, static_cast<size_t>(pixels_.numel()), next_slot_);
  fetches_.push_back({next_slot_, first, count});
  next_slot_ = (next_slot_ + 1) % (kOnTheWay + 1);
}

void LateFrames::hand_out_all() {
  while (!fetches_.empty()) hand_out_oldest();
}

}  // namespace tachy
