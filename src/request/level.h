// The optimisations that each level turns on (gpu_mode.h has the GPU's side of the same names). They are
// resolved into the request, and from there into every Stream's Precision.
//
//   none        every op's definition (plain loops): for comparison, slow
//   safe        fast float32 implementations (the default)
//   aggressive  + bf16 products (GEMM, convolution) where the CPU has instructions for them
//   extreme     + the step cache: a step whose input changed little reuses the last model output's change
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/field.h"
#include "tensor/precision.h"

namespace tachy {

struct VideoRequest;

struct Mode {
  bool reference = false;          // uses only definitions
  Compute compute = Compute::f32;  // how products are computed
  double step_cache = 0;           // predicted relative change below which a step is skipped; 0: off
  bool operator==(const Mode&) const = default;
};

struct Level {
  const char* name;
  Mode mode;
  const char* means;
};

// Returns the levels none, safe, aggressive and extreme.
const std::vector<Level>& levels();
Choices level_names();
// Throws invalid_argument, naming `level` and the levels that exist.
const Level& find_level(std::string_view name);

// Accepts "f32" or "bf16"; throws invalid_argument for others.
Compute parse_compute(const std::string& dtype);
// Returns the mode in which a resolved request computes.
Mode mode_of(const VideoRequest& resolved);

}  // namespace tachy
