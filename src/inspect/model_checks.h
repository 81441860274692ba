// A model without golden values, held against its own definitions: each of its stages as this level computes it, beside the plain loops
// that say what each op is (level none), on the same random inputs; the transformer over two steps, each side going on from its own.
#pragma once

#include "inspect/golden_compare.h"

namespace tachy {

struct ModelBundle;

// This is how far float32 may be from the definitions, relative to the largest value: rounding through many layers. One value may be further off than the
// mean tells, since the norm of a nearly zero vector enlarges rounding a hundredfold (1.8e-4 and 2e-6 in the VAE of a random model).
inline constexpr double kDefinitionsMax = 5e-4, kDefinitionsMean = 5e-6;

// 16 bits may be this many times as far off as the definitions themselves are with products in bf16. Those round what linear layers
// and convolutions multiply; the fast ways round attention's operands as well, and differ 2 to 8 times as much.
inline constexpr double kRounded = 10;

// How the options' level computes on their device: whether in 16 bits, and its residual stream.
RunPrecision precision_at(const ValidateOptions& options);

// Fills the check. rounded: the definitions again, with products in bf16; null: in float32 the two must agree, and 16 bits without that
// yardstick are held to the official models' figures (kOriginalBf16Max).
void compare_with_definitions(const TensorFile::Values& got, const TensorFile::Values& definitions,
                              const TensorFile::Values* rounded, bool low, Check& check);

// blocks: the model makes videos block by block, and its transformer is checked elsewhere (rollout_checks.h).
void validate_stages_by_definitions(const ModelBundle& model, const std::string& name, bool blocks,
                                    const ValidateOptions& options, std::vector<Check>& checks);

}  // namespace tachy
