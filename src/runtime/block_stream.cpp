#include "runtime/block_stream.h"

#include "base/checksum.h"

namespace tachy::runtime {
namespace {

constexpr size_t kPage = 4096;

}  // namespace

int64_t BlockStream::rank_of(int64_t i, int64_t blocks, int64_t streamed) {
  const int64_t k = (i * streamed + blocks - 1) / blocks;  // the first streamed block from i on
  return k < streamed && k * blocks / streamed == i ? k : -1;
}

BlockStream::BlockStream(DeviceMemory& memory, int64_t blocks, int64_t streamed, const Tensor& slots)
    : memory_(memory), copies_(dynamic_cast<StreamingMemory&>(memory)), streamed_(streamed), slots_(slots) {
  check(streamed >= kFewest && streamed <= blocks && slots.dim(0) == 2, ErrorCode::internal,
        "block stream: {} of {} blocks", streamed, blocks);
  for (int64_t i = 0; i < blocks; ++i) ranks_.push_back(rank_of(i, blocks, streamed));
  constexpr auto page = static_cast<int64_t>(kPage);
  stride_ = (slots.dim(1) + page - 1) / page * page;
  images_ = Buffer(static_cast<size_t>(streamed * stride_) + kPage);
  pinned_.resize(static_cast<size_t>(streamed));
}

BlockStream::~BlockStream() {
  try {
    finish();  // waits for copies that read the images
    memory_.synchronize();
  } catch (const Error&) {
    // The device has failed, and its next user will get the error.
  }
  for (int64_t k = 0; k < streamed_; ++k)
    if (pinned_[static_cast<size_t>(k)]) copies_.unpin(image_of_rank(k));
}

char* BlockStream::slot(int64_t block) const {
  return static_cast<char*>(slots_.select(0, rank(block) % 2).data);
}

// Pages are locked as a whole, and locking a page twice fails, so no two images share a page.
char* BlockStream::image_of_rank(int64_t rank) const {
  const auto start = (reinterpret_cast<uintptr_t>(images_.data()) + kPage - 1) / kPage * kPage;
  return reinterpret_cast<char*>(start) + rank * stride_;
}

char* BlockStream::image(int64_t block) const { return image_of_rank(rank(block)); }

// Images are locked one by one, because locking all of them at once takes seconds, during which the run could
// not be stopped.
void BlockStream::loaded(int64_t block) {
  const int64_t k = rank(block);
  copies_.pin(image_of_rank(k), static_cast<size_t>(stride_));
  pinned_[static_cast<size_t>(k)] =
      copies_.uploaded ? checksum_of(image_of_rank(k), static_cast<size_t>(slots_.dim(1))) : 0;
}

void BlockStream::send(int64_t k) {
  const auto s = static_cast<int>(k % 2);
  copies_.copy_beside(slots_.select(0, s).data, image_of_rank(k), static_cast<size_t>(slots_.dim(1)), s);
  holds_[s] = k, waited_[s] = false;
}

void BlockStream::enter(int64_t block) {
  const int64_t k = rank(block);
  if (k < 0) return;
  const auto s = static_cast<size_t>(k % 2);
  if (holds_[s] != k) send(k);  // this is the first pass, or the previous one was not finished
  if (waited_[s]) return;
  copies_.wait_beside(static_cast<int>(s));
  waited_[s] = true;
  if (copies_.uploaded) check_arrival(k);
}

void BlockStream::check_arrival(int64_t k) const {
  const auto s = k % 2;
  const auto bytes = static_cast<size_t>(slots_.dim(1));
  const uint64_t there = copies_.checksum(slots_.select(0, s).data, bytes),
                 here = checksum_of(image_of_rank(k), bytes), loaded = *pinned_[static_cast<size_t>(k)];
  check(there == here && here == loaded, ErrorCode::device,
        "`verify_upload`: streamed block {} of {} in slot {}: {}; the machine's or the GPU's memory, or the "
        "way between them, fails",
        k, streamed_, s,
        here != loaded ? "its bytes in host memory have changed since they were loaded"
                       : "other bytes have arrived than were sent");
}

void BlockStream::leave(int64_t block) {
  const int64_t k = rank(block);
  if (k < 0) return;
  const int64_t next = k + 2 < streamed_ ? k + 2 : k % 2;
  if (next != k) send(next);  // with three streamed blocks, the second keeps its slot
}

void BlockStream::finish() {
  for (int s = 0; s < 2; ++s) {
    if (!waited_[s]) copies_.wait_beside(s);
    waited_[s] = true;
  }
}

}  // namespace tachy::runtime
