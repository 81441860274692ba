// Tells which arithmetic the ops of this build have on this CPU.
#pragma once

#include <optional>
#include <string>

#include "base/refusal.h"

namespace tachy::ops {

// Returns nothing if products can run in bf16 (a stream's Compute::bf16 then has an
// effect), or the reason why not.
std::optional<Refusal> why_no_bf16();

// Describes everything here, besides a Stream's settings, that the bits of a result may depend on: the CPU
// and its instruction sets, the libraries, and the environment options that choose between implementations.
std::string describe_arithmetic();

}  // namespace tachy::ops
