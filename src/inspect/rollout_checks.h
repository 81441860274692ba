// Models that make videos block by block, held against what they should give: a folder of golden rollouts
// (tests/golden/causal), and any model against itself in other arithmetic.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "inspect/validate.h"

namespace tachy {

// The official Matrix-Game 2 and Self-Forcing in bfloat16 against themselves in float32, on their own weights: the largest and
// the mean difference of a velocity. They miss kBf16Max and kBf16Mean themselves. Only what has no figure of its own is held to them: no
// golden values, and definitions that would take too long or are not how a GPU computes.
inline constexpr double kOriginalBf16Max = 0.028, kOriginalBf16Mean = 0.0052;

// golden: a golden.json with "rollouts", the reference's own errors by case.
void validate_rollouts(const nlohmann::json& golden, const std::filesystem::path& folder,
                       const ValidateOptions& options, std::vector<Check>& checks);

// Whether a model's files say that it makes videos block by block.
bool checks_blocks(const std::filesystem::path& model);
// Over blocks of random noise, context and actions: float32 against the definitions (where they do not take too long; on a GPU
// against the CPU), and bf16 against them, no further than the definitions are with products in bf16 (on a GPU against float32).
void validate_block_model(const std::filesystem::path& model, const ValidateOptions& options,
                          std::vector<Check>& checks);

}  // namespace tachy
