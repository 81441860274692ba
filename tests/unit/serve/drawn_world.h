// A world without a model: W, S, A and D move a square by two pixels per frame over a background in the start
// picture's colour. Cells at the top are bright while their key is held, and a bar below them is as long as
// the mouse's yaw. On request it makes a real world's errors: blocks that take time, or a block that is not
// finite.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "serve/steered_world.h"

namespace tachy::test {

inline constexpr uint64_t kSeedOfNan = 13;  // with this seed the third block is not finite

class DrawnWorld : public serve::SteeredWorld {
 public:
  DrawnWorld(int width = 160, int height = 96, double fps = 12, double block_seconds = 0)
      : block_seconds_(block_seconds) {
    info_ = {.kind = "drawn", .width = width, .height = height, .fps = fps, .keys = {"W", "S", "A", "D"}};
    info_.mouse = true, info_.mouse_step = 0.1;
    info_.takes_image = true;
    info_.block_frames = 4, info_.first_block_frames = 1;
  }

  const WorldInfo& info() const override { return info_; }
  WorldInfo& about() { return info_; }  // a test may change this before anything asks for it
  std::string device() const override { return "drawn"; }

  void start(const WorldStart& start) override {
    stopped_ = false;
    require(start.image != nullptr, "`image`: this world begins with a picture; give one");
    const std::vector<uint8_t>& rgb = start.image->rgb;
    uint64_t sums[3] = {};
    for (size_t i = 0; i + 2 < rgb.size(); i += 3)
      for (size_t c = 0; c < 3; ++c) sums[c] += rgb[i + c];
    for (size_t c = 0; c < 3; ++c)
      ground_[c] = static_cast<uint8_t>(sums[c] / std::max<size_t>(1, rgb.size() / 3));
    seed_ = start.seed;
    begin();
    ++starts;
  }
  void reset() override {
    stopped_ = false;
    require(starts > 0, "world: there is nothing to reset: no session was started");
    begin();
  }
  void act(const WorldAction& action, uint64_t stamp) override { action_ = action, stamp_ = stamp; }
  void stop() override { stopped_ = true; }

  WorldBlock next_block(const std::function<void(const RgbImage& image, int64_t index)>& frame) override {
    const auto begun = std::chrono::steady_clock::now();
    check(!stopped_, ErrorCode::cancelled, "cancelled");
    WorldBlock out{.index = blocks_,
                   .first_frame = frames_,
                   .frames = blocks_ == 0 ? 1 : 4,
                   .action = action_,
                   .stamp = stamp_};
    const double slice = block_seconds_ / static_cast<double>(out.frames);
    for (int64_t i = 0; i < out.frames; ++i) {
      for (auto until = begun + std::chrono::duration<double>(slice * static_cast<double>(i + 1));
           std::chrono::steady_clock::now() < until;) {
        check(!stopped_, ErrorCode::cancelled, "cancelled");
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      check(!stopped_, ErrorCode::cancelled, "cancelled");
      check(seed_ != kSeedOfNan || blocks_ < 2, ErrorCode::numerical, "denoise: block 2 is not finite");
      move();
      draw();
      frame({picture_, info_.width, info_.height}, frames_++);
    }
    ++blocks_, ++blocks_made;
    out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    return out;
  }

  std::atomic<int64_t> blocks_made{0}, starts{0};

 private:
  float key(size_t i) const { return i < action_.keyboard.size() ? action_.keyboard[i] : 0; }
  void begin() {
    x_ = info_.width / 2 + static_cast<int>(seed_ % 16), y_ = info_.height / 2;
    blocks_ = frames_ = 0;
    action_ = {}, stamp_ = 0;
  }
  void move() {
    const auto wrap = [](int v, int n) { return (v % n + n) % n; };
    x_ = wrap(x_ + 2 * static_cast<int>(key(3) - key(2)), info_.width);
    y_ = wrap(y_ + 2 * static_cast<int>(key(1) - key(0)), info_.height);
  }
  void fill(int x, int y, int width, int height, uint8_t r, uint8_t g, uint8_t b) {
    for (int j = std::max(0, y); j < std::min(y + height, info_.height); ++j)
      for (int i = std::max(0, x); i < std::min(x + width, info_.width); ++i) {
        uint8_t* p = picture_.data() +
                     (static_cast<size_t>(j) * static_cast<size_t>(info_.width) + static_cast<size_t>(i)) * 3;
        p[0] = r, p[1] = g, p[2] = b;
      }
  }
  void draw() {
    picture_.resize(static_cast<size_t>(info_.width) * static_cast<size_t>(info_.height) * 3);
    fill(0, 0, info_.width, info_.height, ground_[0], ground_[1], ground_[2]);
    for (int k = 0; k < 4; ++k)
      if (key(static_cast<size_t>(k)) != 0) fill(k * 10, 0, 8, 8, 255, 220, 0);
    const float yaw = action_.mouse.size() == 2 ? action_.mouse[1] : 0;
    fill(80, 0, static_cast<int>(yaw * 80), 8, 0, 255, 255);
    fill(x_ - 8, y_ - 8, 16, 16, 255, 255, 255);
  }

  WorldInfo info_;
  double block_seconds_;
  std::atomic<bool> stopped_{false};
  WorldAction action_;
  uint64_t stamp_ = 0, seed_ = 0;
  uint8_t ground_[3] = {};
  int x_ = 0, y_ = 0;
  int64_t blocks_ = 0, frames_ = 0;
  std::vector<uint8_t> picture_;
};

inline WorldStart drawn_start(uint8_t r = 20, uint8_t g = 30, uint8_t b = 90) {
  Picture picture{8, 8, {}};
  for (int i = 0; i < 64; ++i) picture.rgb.insert(picture.rgb.end(), {r, g, b});
  return {.image = std::make_shared<const Picture>(std::move(picture))};
}

}  // namespace tachy::test
