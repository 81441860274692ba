// A VACE model's control is encoded as two videos, one of the places to keep and one of those to make anew. In one of
// them most frames are often gray, and these are left out. The latents have the bits of all frames together.
#include <gtest/gtest.h>

#include <random>

#include "../models/wan_vae_golden.h"
#include "stages/condition.h"
#include "stages/footage.h"

namespace tachy {
namespace {

using test::Runner;
using test::VaeCase;

constexpr int64_t kFrames = 61, kSide = 16;

struct Given {
  std::string name;
  bool image = false, last_image = false, control = false, mask = false, kept = false;
  int64_t first = 0, end = 0;  // frames of the control video
};
void PrintTo(const Given& given, std::ostream* out) { *out << given.name; }

class ControlParts : public testing::TestWithParam<Given> {
 protected:
  ControlParts() {
    const Given given = GetParam();
    std::mt19937 random(7);
    const auto fill = [&](std::vector<uint8_t>& values, int64_t count, bool two_values) {
      for (int64_t i = 0; i < count; ++i)
        values.push_back(static_cast<uint8_t>(two_values ? random() % 2 * 255 : random()));
    };
    const auto picture = [&] {
      Picture p{.width = kSide, .height = kSide, .rgb = {}};
      fill(p.rgb, kSide * kSide * 3, false);
      return std::make_shared<const Picture>(std::move(p));
    };
    VideoRequest& q = request_.request;
    q.width = kSide, q.height = kSide, q.frames = static_cast<int>(kFrames);
    if (given.image) q.image = picture();
    if (given.last_image) q.last_image = picture();
    ClipPixels pixels;
    request_.control = {.follows = true, .scales = {}, .first = given.first, .end = given.end};
    if (given.control) {
      q.control_video = std::make_shared<const Footage>();
      request_.control.right = kSide, request_.control.bottom = kSide, request_.control.kept = given.kept;
      fill(pixels.control, (given.end - given.first) * kSide * kSide * 3, false);
    }
    if (given.mask) {
      q.mask_video = std::make_shared<const Footage>();
      fill(pixels.mask, (given.end - given.first) * kSide * kSide, true);
    }
    request_.footage = std::make_shared<const ClipPixels>(std::move(pixels));
    request_.clip_frames = kFrames, request_.latent_frames = vae_.config.latent_frames(kFrames);
    request_.latent_height = request_.latent_width = kSide / vae_.config.spatial_stride();
    request_.latent_channels = vae_.config.z_dim;
  }

  // The frames by their definition (stages/footage.h), and whether each is gray.
  std::vector<float> frames(bool anew, std::vector<bool>& gray) const {
    const Given given = GetParam();
    constexpr int64_t kPixels = kSide * kSide;
    std::vector<float> out;
    for (int64_t i = 0; i < kFrames; ++i) {
      const Picture* picture = i == 0             ? request_.request.image.get()
                               : i == kFrames - 1 ? request_.request.last_image.get()
                                                  : nullptr;
      std::vector<float> frame(kPixels * 3, 0.0f);
      if (picture && !anew) frame = pixels_of(*picture);
      for (int64_t p = 0; !picture && given.control && i >= given.first && i < given.end && p < kPixels;
           ++p) {
        const auto at = static_cast<size_t>((i - given.first) * kPixels + p);
        const bool made = given.mask ? request_.footage->mask[at] > 127 : !given.kept;
        for (size_t c = 0; c < 3 && made == anew; ++c)
          frame[static_cast<size_t>(p) * 3 + c] =
              2.0f * (static_cast<float>(request_.footage->control[at * 3 + c]) / 255.0f) - 1.0f;
      }
      gray.push_back(std::ranges::all_of(frame, [](float v) { return v == 0; }));
      out.insert(out.end(), frame.begin(), frame.end());
    }
    return out;
  }

  VaeCase vae_{"wan21"};
  Resolved request_;
};

TEST_P(ControlParts, HaveTheLatentsOfAllFrames) {
  const int64_t z = vae_.config.z_dim, s = vae_.config.spatial_stride();
  const std::vector<int64_t> dims{z, request_.latent_frames, request_.latent_height, request_.latent_width};
  const int64_t part = dims[0] * dims[1] * dims[2] * dims[3];
  std::vector<float> got(static_cast<size_t>((2 * z + s * s) * part / z), NAN);
  const Tensor control(got.data(), DType::f32, {2 * z + s * s, dims[1], dims[2], dims[3]});
  Runner runner(2);
  size_t peak = 0;
  for (const bool plan : {true, false}) {
    Stream stream = plan ? runner.measuring() : runner.sized(peak);
    const VaeEncoder vae(Scope(vae_.source()), vae_.config, {.logvar = false}, stream);
    encode_control(vae, request_, control, stream, {.latents = 2});
    EXPECT_TRUE(plan || runner.arena.peak() == peak);
    peak = runner.arena.peak();
  }
  for (const bool anew : {false, true}) {
    std::vector<bool> gray;
    std::vector<float> pixels = frames(anew, gray), want(static_cast<size_t>(part), NAN);
    const Tensor video(pixels.data(), DType::f32, {kFrames, kSide, kSide, 3});
    Runner other(2);
    size_t bytes = 0;
    for (const bool plan : {true, false}) {
      Stream stream = plan ? other.measuring() : other.sized(bytes);
      const VaeEncoder vae(Scope(vae_.source()), vae_.config, {.logvar = false}, stream);
      vae.encode(video, Tensor(want.data(), DType::f32, dims), Tensor(), stream);
      bytes = other.arena.peak();
    }
    const auto begin = got.begin() + (anew ? part : 0);
    EXPECT_TRUE(std::equal(want.begin(), want.end(), begin)) << (anew ? "anew" : "kept");

    // It finds the longest run that there is.
    const EqualFrames run = gray_frames(request_, anew);
    int64_t longest = 0, now = 0;
    for (const bool is : gray) now = is ? now + 1 : 0, longest = std::max(longest, now);
    EXPECT_EQ(run.end - run.begin, longest) << (anew ? "anew" : "kept");
    for (int64_t i = run.begin; i < run.end; ++i) EXPECT_TRUE(gray[static_cast<size_t>(i)]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Requests, ControlParts,
    testing::Values(Given{.name = "references"},
                    Given{.name = "first_last", .image = true, .last_image = true},
                    Given{.name = "follow", .control = true, .end = kFrames},
                    Given{.name = "picture_and_follow", .image = true, .control = true, .end = kFrames},
                    Given{.name = "keep", .control = true, .kept = true, .first = 5, .end = 17},
                    Given{.name = "inpaint", .control = true, .mask = true, .end = kFrames},
                    Given{.name = "inpaint_a_part", .control = true, .mask = true, .first = 40, .end = 45}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tachy
