// Plans for GPUs that are not here, of models that have a true shape and no values, and their comparison with
// measurements.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "estimate/time_plan.h"
#include "shape_model.h"

namespace tachy::test {

inline const ShapeModel& model(const std::string& shape) {
  static const ShapeModel small("1.3B"), large("14B");
  return shape == "14B" ? large : small;
}

// Requests one forward pass of 81 frames, with the residual stream in the activations' dtype.
inline VideoRequest one_pass(int width, int height) {
  VideoRequest r;
  r.prompt = "a red circle";
  r.width = width, r.height = height, r.frames = 81, r.steps = 1, r.guidance = 1, r.residual = "bf16";
  return r;
}

inline TimePlan plan(const std::string& shape, const VideoRequest& r, const char* gpu,
                     uint64_t max_vram = 0) {
  return plan_time({.model = model(shape).folder, .parts = {}, .gpu = gpu, .max_vram = max_vram}, r);
}

inline Seconds stage(const TimePlan& plan, std::string_view name) {
  for (const TimePlan::Stage& s : plan.stages)
    if (s.name == name) return s.seconds;
  ADD_FAILURE() << name;
  return {};
}

inline void expect_near(const Seconds& s, double measured, const std::string& what) {
  EXPECT_NEAR(s.middle() / measured, 1, 0.1) << what << ": " << s.least << " to " << s.most;
  EXPECT_LE(s.least, 1.02 * measured) << what;
  EXPECT_GE(s.most, 0.98 * measured) << what;
}

}  // namespace tachy::test
