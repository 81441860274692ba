#include "denoise/block_frames.h"

#include <cstring>

#include "ops/elementwise/elementwise.h"
#include "tensor/transfer.h"

namespace tachy {
BlockFrames::BlockFrames(const Input& in, Stream& stream)
    : stream_(stream),
      vae_(*in.vae),
      run_(in.run),
      store_({}, stream),
      memory_(StreamingMemory::of(stream.memory)),
      late_(memory_ != nullptr),
      // A profiler may need the work of each range to be queued inside the range, which a graph does not do.
      graphs_(in.graphs && late_ && !forbids_graphs(stream.hooks.profiler) &&
              runtime::StepGraph::possible(stream)) {
  const VaeConfig& c = vae_.config();
  const int64_t height = in.height * c.spatial_stride(), width = in.width * c.spatial_stride();
  const int64_t count = in.frames == 1 ? 1 : c.temporal_stride();
  frame_bytes_ = height * width * 3;
  const auto all = static_cast<int64_t>(align_up(static_cast<size_t>(count * frame_bytes_)));
  const int64_t marks = in.steps + 1;
  pixels_ = store_.allocate(DType::u8, {all + 4 * marks});
  rgb_ = pixels_.slice(0, 0, count * frame_bytes_).view({count, height, width, 3});
  if (late_) {
    const Tensor tail = pixels_.slice(0, all, all + 4 * marks);
    marks_ = FiniteMarks(Tensor(tail.data, DType::i32, {marks}, tail.device));
    latent_ = store_.allocate(DType::f32, {c.z_dim, 1, in.height, in.width});
  }
  std::vector<Rank> ranks = in.further;
  ranks.insert(ranks.begin(), {.vae = in.vae, .stream = &stream, .seat = in.seat});
  for (const Rank& rank : ranks) {
    VaeState& state = bands_.emplace_back(rank).state;
    state = rank.vae->make_state(in.height, in.width, in.frames, *rank.stream,
                                 ranks.size() > 1 ? rank.seat->comm : nullptr);
    if (late_) state.mark = marks_.decoded();
  }
  if (!late_ || stream.measuring()) return;
  marks_.clear(stream);
  host_.make(*memory_, static_cast<size_t>(pixels_.bytes()), StreamingMemory::kFetches);
}

BlockFrames::~BlockFrames() {
  try {
    if (!fetches_.empty()) stream_.memory->synchronize();
  } catch (...) {  // the device has failed, and no copy is under way any more
  }
}

// Decodes a latent frame, or a rank's rows of it. The first one of a shape may load kernels, so that exchanges are
// careful then (runtime/peer_comm.h).
void BlockFrames::decode_on(Band& band, const Tensor& latent) {
  const bool shows = &band == &bands_.front();
  const int64_t at = band.state.next_frame;
  Stream& stream = *band.of.stream;
  const ProfileRange range(shows ? nullptr : stream.hooks.profiler, "decode", ProfileKind::group);
  const auto body = [this, shows, at_band = &band, latent] {
    const auto show = [this](const Tensor& frames, int64_t) {
      const ProfileRange part(stream_.hooks.profiler, "pixels", ProfileKind::elementwise);
      ops::to_rgb8(frames, rgb_.slice(0, 0, frames.dim(0)), stream_);
    };
    const Rank& of = at_band->of;
    of.vae->decode_chunk(at_band->state, latent, shows ? VaeDecoder::Sink(show) : VaeDecoder::Sink(),
                         *of.stream);
  };
  runtime::PeerComm* const peers = band.of.seat ? band.of.seat->peers : nullptr;
  if (!graphs_ && !peers) return body();
  runtime::StepSignature signature;
  signature.add(stream).add(latent_).add(pixels_).add(at == 0);
  for (const VaeState::Cache& cache : band.state.caches) signature.add(static_cast<uint64_t>(cache.history));
  runtime::StepGraph::Agree agree;
  if (peers) {
    peers->set_careful(signature != band.last);
    agree = [peers](double mine) { return peers->most(mine); };
  }
  band.last = signature;
  if (!graphs_) return body();
  band.graph.run(stream, signature, body, agree);
  band.state.next_frame = at + 1;  // a launched graph does not update the host's state
}

// Queues the decoding of one latent frame [z, 1, h, w], and the copy of its pixels.
void BlockFrames::queue(const Tensor& latent) {
  const VaeConfig& c = vae_.config();
  const int64_t at = state().next_frame, first = at == 0 ? 0 : c.pixel_frames(at),
                count = at == 0 ? 1 : c.temporal_stride();
  if (late_) ops::copy({.x = latent, .y = latent_}, stream_);
  const Tensor from = late_ ? latent_ : latent;
  if (bands_.size() == 1)
    decode_on(bands_.front(), from);
  else
    run_([&](int rank) { decode_on(bands_.at(static_cast<size_t>(rank)), from); });
  if (!late_ || stream_.measuring()) return;
  const ProfileRange part(stream_.hooks.profiler, "copy to host", ProfileKind::output);
  const int slot = take_slot();
  memory_->fetch(host_.slot(slot), pixels_.data, static_cast<size_t>(pixels_.bytes()), slot);
  fetches_.push_back({slot, first, count});
}

void BlockFrames::hand_out(const uint8_t* pixels, int64_t first, int64_t count, const Frame& frame) const {
  if (!frame) return;
  const ProfileRange part(stream_.hooks.profiler, "frames out", ProfileKind::output);
  for (int64_t i = 0; i < count; ++i)
    frame({{pixels + i * frame_bytes_, static_cast<size_t>(frame_bytes_)},
           static_cast<int>(rgb_.dim(2)),
           static_cast<int>(rgb_.dim(1))},
          first + i);
}

void BlockFrames::wait_oldest() {
  if (waits_.size() <= waited_) waits_.emplace_back();
  since_ = waits_[waited_++].until(
      [&] {
        stream_.throw_if_cancelled();
        return memory_->fetched(fetches_.front().slot);
      },
      since_);
}

void BlockFrames::hand_out_oldest(const Frame& frame) {
  wait_oldest();
  const Fetch next = fetches_.front();
  fetches_.pop_front();
  const uint8_t* pixels = host_.slot(next.slot);
  std::vector<int32_t> marks(static_cast<size_t>(marks_.steps()) + 1);
  std::memcpy(marks.data(), pixels + align_up(static_cast<size_t>(rgb_.bytes())), 4 * marks.size());
  FiniteMarks::expect_steps(std::span<const int32_t>(marks));
  check(marks.back() == 0, ErrorCode::numerical, "{}", VaeDecoder::not_finite(next.first));
  hand_out(pixels, next.first, next.count, frame);
}

// Drops what is left of an earlier block whose frames were no longer wanted.
void BlockFrames::drop_fetches() {
  if (fetches_.empty()) return;
  stream_.memory->synchronize();
  fetches_.clear();
}

void BlockFrames::decode(const Tensor& latents, const Frame& frame, const std::function<void()>& then) {
  drop_fetches();
  waited_ = 0;
  for (int64_t t = 0; t < latents.dim(1); ++t) {
    stream_.throw_if_cancelled();
    if (fetches_.size() == StreamingMemory::kFetches) hand_out_oldest(frame);
    const int64_t at = state().next_frame;
    const ProfileRange range(stream_.hooks.profiler, "decode", ProfileKind::group);
    queue(latents.slice(1, t, t + 1));
    if (late_ || stream_.measuring()) continue;
    const VaeConfig& c = vae_.config();
    hand_out(rgb_.as<uint8_t>(), at == 0 ? 0 : c.pixel_frames(at), at == 0 ? 1 : c.temporal_stride(), frame);
  }
  if (then) then();
  if (host_.locked()) {  // otherwise this copy would be waited for before the frames are handed out
    if (fetches_.size() == StreamingMemory::kFetches) hand_out_oldest(frame);
    last_ = take_slot();  // a copy of one byte that nobody reads: its arrival tells that the device is done
    memory_->fetch(host_.slot(*last_), pixels_.data, 1, *last_);
  }
  while (!fetches_.empty()) hand_out_oldest(frame);
}

void BlockFrames::settle() {
  if (last_) since_ = settling_.until([&] { return memory_->fetched(*last_); }, since_);
  last_.reset();
}

}  // namespace tachy
