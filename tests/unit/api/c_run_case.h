// Runs of the C interface on a tiny model of random weights, for the tests of what they give and of what they refuse.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/tachyscope_c_v2.h"

namespace tachy::test {

inline const std::string kGolden = std::string(TACHY_SOURCE_DIR) + "/tests/golden/";

inline tachyscope_request_v2 request_2(const char* prompt) {
  tachyscope_request_v2 out = {};
  out.size = sizeof out, out.prompt = prompt, out.seed = 3;
  return out;
}

struct Seen {
  std::vector<uint8_t> rgb;
  std::vector<float> latents;
  std::vector<std::string> stages;
  int frames = 0, previews = 0, stop_at = -1;
};
inline tachyscope_callbacks callbacks_into(Seen& seen) {
  tachyscope_callbacks out = {};
  out.size = sizeof out, out.user = &seen;
  out.frame = [](void* user, const uint8_t* rgb, int32_t width, int32_t height, int64_t index) {
    auto& to = *static_cast<Seen*>(user);
    to.rgb.insert(to.rgb.end(), rgb, rgb + 3 * width * height), ++to.frames;
    return index == to.stop_at ? 1 : 0;
  };
  out.preview = [](void* user, const uint8_t*, int32_t, int32_t, int64_t) {
    ++static_cast<Seen*>(user)->previews;
    return 0;
  };
  out.progress = [](void* user, const tachyscope_progress* p) {
    auto& stages = static_cast<Seen*>(user)->stages;
    if (stages.empty() || stages.back() != p->stage) stages.emplace_back(p->stage);
  };
  out.latents = [](void* user, const float* values, const int64_t* shape, int32_t dims) {
    int64_t count = 1;
    for (int32_t i = 0; i < dims; ++i) count *= shape[i];
    static_cast<Seen*>(user)->latents.assign(values, values + count);
    return 0;
  };
  return out;
}

class CRun : public testing::Test {
 protected:
  static tachyscope_engine* opened(const std::string& folder) {
    const tachyscope_setting options[] = {{"device", "cpu"}, {"threads", "2"}};
    tachyscope_engine* out = nullptr;
    EXPECT_EQ(tachyscope_open((kGolden + folder).c_str(), options, 2, &out), 0) << tachyscope_last_error();
    return out;
  }
  ~CRun() override { tachyscope_free(engine); }

  // Returns the code of making a request, its plan first.
  int code(const tachyscope_request_v2& request, Seen* seen = nullptr) {
    tachyscope_run* run = nullptr;
    int out = tachyscope_run_open(engine, &request, &run);
    EXPECT_EQ(run == nullptr, out != 0);
    if (out) return out;
    tachyscope_plan_result plan = {};
    out = tachyscope_run_plan(run, &plan);
    if (!out && seen) {
      const tachyscope_callbacks to = callbacks_into(*seen);
      out = tachyscope_run_generate(run, &to);
    }
    tachyscope_run_free(run);
    return out;
  }
  // Returns the text of a refusal with the code 2.
  std::string refusal(const tachyscope_request_v2& request) {
    EXPECT_EQ(code(request), 2);
    return tachyscope_last_error();
  }

  tachyscope_engine* engine = opened("pipeline/model");
};

}  // namespace tachy::test
