// Checks models that make videos block by block: against a folder of golden rollouts (tests/golden/causal),
// and any model against itself in other arithmetic.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "inspect/validate.h"

namespace tachy {

// The official Matrix-Game 2 and Self-Forcing were compared in bfloat16 with themselves in float32, on their
// own weights: these are the largest and the mean difference of a velocity. Even these models do not meet
// kBf16Max and kBf16Mean. The limits apply only to cases without a figure of their own: there are no golden
// values, and the definitions would take too long or do not match a GPU's arithmetic.
inline constexpr double kOriginalBf16Max = 0.028, kOriginalBf16Mean = 0.0052;

// `golden` is a golden.json with "rollouts", the reference's own errors for each case.
void validate_rollouts(const nlohmann::json& golden, const std::filesystem::path& folder,
                       const ValidateOptions& options, std::vector<Check>& checks);

// Says whether a model's files describe one that makes videos block by block.
bool checks_blocks(const std::filesystem::path& model);
// Checks a model over blocks of random noise, context and actions. Float32 is compared with the definitions
// (if they do not take too long; on a GPU with the CPU). So is bf16, which must be no further off than the
// definitions with products in bf16; on a GPU it is compared with float32.
void validate_block_model(const std::filesystem::path& model, const ValidateOptions& options,
                          std::vector<Check>& checks);

}  // namespace tachy
