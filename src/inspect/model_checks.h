// Checks a model without golden values against its own definitions. Each of its stages as this level computes
// it is compared with the plain loops that define each op (level none), on the same random inputs. The
// transformer runs over two steps, in which each side continues from its own result.
#pragma once

#include "inspect/golden_compare.h"

namespace tachy {

struct ModelBundle;

// The distance that float32 may have from the definitions, relative to the largest value, after rounding in
// many layers. A single value may be further off than the mean suggests, since the norm of a nearly zero
// vector magnifies rounding a hundredfold (1.8e-4 and 2e-6 in the VAE of a random model).
inline constexpr double kDefinitionsMax = 5e-4, kDefinitionsMean = 5e-6;

// Results in 16 bits may be this many times as far off as the definitions with products in bf16. The
// definitions round the operands of linear layers and convolutions; the fast implementations also round those
// of attention, and differ 2 to 8 times as much.
inline constexpr double kRounded = 10;

// Returns the precision of the options' level on their device: whether it is 16 bits, and the residual
// stream.
RunPrecision precision_at(const ValidateOptions& options);

// Fills in the check. `rounded` is the result of the definitions with products in bf16. If it is null,
// float32 must agree with the definitions, and 16 bits are judged by the official models' figures
// (kOriginalBf16Max).
void compare_with_definitions(const TensorFile::Values& got, const TensorFile::Values& definitions,
                              const TensorFile::Values* rounded, bool low, Check& check);

// `blocks` says that the model makes videos block by block, and that its transformer is checked elsewhere
// (rollout_checks.h).
void validate_stages_by_definitions(const ModelBundle& model, const std::string& name, bool blocks,
                                    const ValidateOptions& options, std::vector<Check>& checks);

}  // namespace tachy
