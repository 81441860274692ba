// The frames of a video that is made block by block, on their way to the host. A block is queued whole: its
// steps, the decoding of each of its latent frames and a copy of their pixels to page-locked memory. Only
// then does the host wait, asleep, for the first of these copies; it hands out frame after frame while the
// device continues. The pixels come with marks of values that were not finite (finite_marks.h): such a block
// ends in an error before one of its frames is shown.
//
// Several GPUs may divide the rows of each latent frame. The first one has the frames, and all wait for one another
// before their copy is queued.
//
// Once the decoder's caches are full, decoding a latent frame is the same work at the same addresses each
// time, so it becomes a graph. On the CPU each latent frame is decoded, checked and handed out before the
// next one.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "denoise/finite_marks.h"
#include "denoise/rank_seat.h"
#include "models/wan_vae/wan_vae.h"
#include "nn/params.h"
#include "request/request.h"
#include "runtime/step_graph.h"
#include "runtime/usual_wait.h"
#include "tensor/pinned_slots.h"

namespace tachy {

class BlockFrames {
 public:
  // A GPU that decodes some rows of each latent frame.
  struct Rank {
    const VaeDecoder* vae = nullptr;
    Stream* stream = nullptr;
    const RankSeat* seat = nullptr;
  };
  struct Input {
    const VaeDecoder* vae = nullptr;
    int64_t height = 0, width = 0;   // of the latents
    int64_t frames = 2;              // latent frames of the whole video; 1: a single one
    int steps = 0;                   // per block
    bool graphs = false;             // whether decoding may be captured
    std::vector<Rank> further = {};  // the other GPUs that divide the rows; none: this stream's decodes alone
    const RankSeat* seat = nullptr;  // the seat of this stream's, if there are further ones
    RunRanks run = {};               // lets all of them do something
  };
  using Frame = std::function<void(const RgbImage& image, int64_t index)>;

  BlockFrames(const Input& in, Stream& stream);
  ~BlockFrames();
  BlockFrames(const BlockFrames&) = delete;
  BlockFrames& operator=(const BlockFrames&) = delete;

  // The marks in which the block's steps note values that are not finite; null: they must check at once.
  // begin_block clears the marks.
  const FiniteMarks* marks() const { return late_ ? &marks_ : nullptr; }
  void begin_block() {
    if (late_) marks_.clear(stream_);
    since_ = settling_.now();
  }
  // Decodes the block that follows, latents [z, n, h, w]. `then` queues the work after the last frame: it is
  // called before the first frame is waited for, or, if nothing is queued, after the last one has been handed
  // out. Throws numerical, naming step or frame.
  void decode(const Tensor& latents, const Frame& frame, const std::function<void()>& then = {});
  // Sleeps until the device has finished the last block and the work that `then` queued. Returns at once if
  // host memory could not be page-locked.
  void settle();

  const VaeState& state() const { return bands_.front().state; }
  uint64_t bytes() const { return store_.bytes() + align_up(state().bytes); }
  int captures() const { return bands_.front().graph.captures(); }

 private:
  // A copy of pixels on its way to the slot of that number in host memory.
  struct Fetch {
    int slot;
    int64_t first, count;
  };
  // The rows that a rank decodes, or all of them.
  struct Band {
    Rank of;
    VaeState state;
    runtime::StepGraph graph;
    runtime::StepSignature last;  // that of the latent frame before
  };
  int take_slot() { return std::exchange(next_slot_, (next_slot_ + 1) % StreamingMemory::kFetches); }
  void queue(const Tensor& latent);
  void decode_on(Band& band, const Tensor& latent);
  void wait_oldest();
  void hand_out_oldest(const Frame& frame);
  void hand_out(const uint8_t* pixels, int64_t first, int64_t count, const Frame& frame) const;
  void drop_fetches();

  Stream& stream_;
  const VaeDecoder& vae_;
  RunRanks run_;
  nn::ParamStore store_;
  StreamingMemory* memory_;  // for frames that are fetched later; null on the CPU
  bool late_, graphs_;
  int64_t frame_bytes_ = 0;
  Tensor latent_;  // [z, 1, h, w] f32: the latent frame that is being decoded
  Tensor pixels_;  // u8: a latent frame's pixels, then the marks
  Tensor rgb_;     // [frames of a latent frame, H, W, 3]
  FiniteMarks marks_;
  std::deque<Band> bands_;
  PinnedSlots host_;
  int next_slot_ = 0;
  std::deque<Fetch> fetches_;
  std::optional<int> last_;  // the slot whose copy ends when the whole block is done
  // There is one for the block's first fetch, one for its second, and so on; the last one serves all further
  // fetches, too.
  std::vector<runtime::UsualWait> waits_;
  runtime::UsualWait settling_;
  size_t waited_ = 0;  // fetches of this block so far
  // The time at which the device began what is waited for next: the block, or the work after the last fetch
  // that arrived.
  double since_ = 0;
};

}  // namespace tachy
