// How a talking photo's video of any length is cut, as InfiniteTalk does it: into windows of equal length, denoised one
// after the other, each of which takes over the last frames of the one before it.
//
//   window k   frames kD … kD + F - 1 of the video, D = F - m; from the second on its first m are those of the window before
//   count      1 + ceil((L - F) / D) for a video of L frames, 1 where L <= F; what the last one has beyond L is cut off
//
// Speech has a row for each of its frames, S of them, at least as many as the video. The last of several windows hears it go
// backwards behind its end.
#pragma once

#include <cstdint>

namespace tachy {

struct TalkWindows {
  int64_t frames = 0;              // of the video, L; 0: no talking photo
  int64_t spoken = 0;              // rows of speech, S
  int64_t window = 0, motion = 0;  // F and m, 4n + 1 each

  int64_t stride() const { return window - motion; }
  int64_t count() const {
    if (frames == 0) return 0;
    return frames <= window ? 1 : 1 + (frames - window + stride() - 1) / stride();
  }
  int64_t first(int64_t k) const { return k * stride(); }
  int64_t taken_over(int64_t k) const { return k == 0 ? 0 : motion; }
  int64_t first_new(int64_t k) const {
    return first(k) + taken_over(k);
  }  // all before it are of earlier windows
  // Rows that the last window needs behind the end of speech, with those that its frames look ahead to.
  int64_t rows_behind() const {
    const int64_t rows = first(count() - 1) + window - spoken + kLooksAhead;
    return count() > 1 && rows > 0 ? rows : 0;
  }
  static constexpr int64_t kLooksAhead = 3;
};

// The shortest windows, of 4n + 1 frames, that are as many as those of at most `windows.window` frames: less work, and none of it
// for frames that are cut off.
TalkWindows even_windows(TalkWindows windows);

}  // namespace tachy
