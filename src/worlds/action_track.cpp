#include "worlds/action_track.h"

#include "base/error.h"

namespace tachy {

WanScript ActionTrack::add(int64_t first, int64_t frames, const std::vector<float>& keyboard,
                           const std::vector<float>& mouse) {
  const WanActionConfig& c = config_;
  if (!c.present()) return {};
  check(static_cast<int64_t>(keyboard.size()) == c.keyboard_dim &&
            static_cast<int64_t>(mouse.size()) == c.mouse_dim,
        ErrorCode::internal, "actions: {} and {} values, expected {} and {}", keyboard.size(), mouse.size(),
        c.keyboard_dim, c.mouse_dim);
  const int64_t end = 1 + c.frames_each * (first + frames - 1), oldest = c.frame_of(first, 0);
  const auto follow = [&](std::vector<float>& track, const std::vector<float>& now) {
    if (oldest > begin_)
      track.erase(track.begin(), track.begin() + (oldest - begin_) * static_cast<int64_t>(now.size()));
    for (int64_t i = end_; i < end; ++i) track.insert(track.end(), now.begin(), now.end());
  };
  follow(keyboard_, keyboard), follow(mouse_, mouse);
  begin_ = oldest, end_ = end;
  WanScript out{.first_frame = begin_};
  out.keyboard = Tensor(keyboard_.data(), DType::f32, {kept(), c.keyboard_dim});
  if (c.mouse_dim > 0) out.mouse = Tensor(mouse_.data(), DType::f32, {kept(), c.mouse_dim});
  return out;
}

}  // namespace tachy
