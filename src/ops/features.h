// Which arithmetic the ops of this build have on this CPU.
#pragma once

#include <optional>
#include <string>

#include "base/refusal.h"

namespace tachy::ops {

// Nothing when products can run in bf16 (a stream's Compute::bf16 then has an effect), or the reason why not.
std::optional<Refusal> why_no_bf16();

// All that the bits of a result may depend on here beside a Stream's settings: the CPU and its instruction
// sets, the libraries, the environment options that choose between implementations.
std::string describe_arithmetic();

}  // namespace tachy::ops
