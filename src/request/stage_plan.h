// Reads a plan: one stage of it, the bytes that this stage holds, where its blocks lie.
#pragma once

#include <string_view>

#include "request/request.h"

namespace tachy {

// How many blocks of a stage's part pass through slots of the device; whether parts stay loaded; among how many ranks a
// denoising pass is divided.
struct Placement {
  int64_t text = 0, denoise = 0;
  bool keeps = false;
  int ranks = 1;
};

const StagePlan& stage_plan(const VideoPlan& plan, std::string_view name);
Placement placement_of(const VideoPlan& plan);
uint64_t bytes_of(const VideoPlan& plan, const StagePlan& stage);  // where parts do not stay

}  // namespace tachy
