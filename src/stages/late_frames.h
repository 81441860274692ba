// A clip's frames on their way from a device to the host, while the device decodes the next ones. The decoder queues
// its work and waits for nothing. A few latent frames later their pixels have arrived, together with the mark that
// tells whether they are finite, and the host hands them out.
#pragma once

#include <deque>
#include <functional>

#include "runtime/usual_wait.h"
#include "tensor/pinned_slots.h"
#include "tensor/stream.h"

namespace tachy {

class LateFrames {
 public:
  // Gets the pixels [n, H, W, 3] of frames `first` on, which it may change.
  using Take = std::function<void(uint8_t* pixels, int64_t first, int64_t count)>;

  // `pixels` is where all of them are made, in any dtype, u8 [bytes], with the decoder's mark (VaeState::mark) in the last four.
  LateFrames(const Tensor& pixels, PinnedSlots& slots, Stream& stream, Take take);
  ~LateFrames();
  LateFrames(const LateFrames&) = delete;
  LateFrames& operator=(const LateFrames&) = delete;

  static Tensor mark_of(const Tensor& pixels);  // [1] i32
  // Fetches frames that have been queued. Hands out earlier ones, so that few are on their way.
  void fetch(int64_t first, int64_t count);
  void hand_out_all();

 private:
  // One is being decoded while another is handed out.
  static constexpr int kOnTheWay = 2;
  struct Fetch {
    int slot;
    int64_t first, count;
  };
  void hand_out_oldest();

  Tensor pixels_;
  PinnedSlots& slots_;
  Stream& stream_;
  StreamingMemory& memory_;
  Take take_;
  std::deque<Fetch> fetches_;
  int next_slot_ = 0;
  runtime::UsualWait wait_;
  double since_ = wait_.now();
};

}  // namespace tachy
