// Turns the names of a level, or of a request's settings that replace it, into a Stream's Precision. There is
// no other way to do so.
#pragma once

#include <optional>
#include <string>

#include "request/gpu_mode.h"
#include "request/level.h"
#include "tensor/precision.h"

namespace tachy {

Precision precision_of(const Mode& mode);     // on the CPU
Precision precision_of(const GpuMode& mode);  // on a GPU

// Finds a level by name, with `dtype` in place of its own unless it is "". `capability` is the GPU's, 90 for
// 9.0, or nothing on the CPU. Throws invalid_argument or unsupported, naming `level` or `dtype`.
Precision precision_at(const std::string& level, const std::string& dtype, std::optional<int> capability);

// Throws invalid_argument if definitions would compute in anything but float32, which users may not ask for;
// only our own checks do.
void check_definitions(const Precision& precision);

}  // namespace tachy
