// Cuts a talking photo's video of any length into windows of equal length, as InfiniteTalk does. They are
// denoised one after the other, and each takes over the last frames of the one before it.
//
//   window k   frames kD … kD + F - 1 of the video, D = F - m; from the second on, the first m come from the window before
//   count      1 + ceil((L - F) / D) for a video of L frames, 1 if L <= F; frames of the last window beyond L are cut off
//
// Speech has S rows, one for each of its frames, at least as many as the video. If there are several windows,
// the last one hears the speech run backwards after its end.
#pragma once

#include <cstdint>

namespace tachy {

struct TalkWindows {
  int64_t frames = 0;              // length L of the video; 0: not a talking photo
  int64_t spoken = 0;              // number S of rows of speech
  int64_t window = 0, motion = 0;  // F and m, each 4n + 1

  int64_t stride() const { return window - motion; }
  int64_t count() const {
    if (frames == 0) return 0;
    return frames <= window ? 1 : 1 + (frames - window + stride() - 1) / stride();
  }
  int64_t first(int64_t k) const { return k * stride(); }
  int64_t taken_over(int64_t k) const { return k == 0 ? 0 : motion; }
  // Returns the window's first new frame: all frames before it belong to earlier windows.
  int64_t first_new(int64_t k) const { return first(k) + taken_over(k); }
  // Returns the rows that the last window needs after the end of speech, including those that its frames look
  // ahead to.
  int64_t rows_behind() const {
    const int64_t rows = first(count() - 1) + window - spoken + kLooksAhead;
    return count() > 1 && rows > 0 ? rows : 0;
  }
  static constexpr int64_t kLooksAhead = 3;
};

// Finds the shortest windows, of 4n + 1 frames, that are as few as windows of at most `windows.window` frames
// would be. They mean less work, and none for frames that are cut off.
TalkWindows even_windows(TalkWindows windows);

}  // namespace tachy
