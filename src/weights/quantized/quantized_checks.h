// Checks for what a quantised file can lose without a wrong name or shape: scales that are gone from some of its
// weights, and scales that are no numbers or zero.
#pragma once

#include "weights/quantized/quantized_layers.h"
#include "weights/quantized/quantized_tensor.h"

namespace tachy {

// Throws corrupt for an 8-bit float weight without a scale where others of the same part of a model have one: its values
// are a few hundred times too large or too small without it. Weights that no quantiser scales (embeddings, convolutions,
// vectors) may be without.
void refuse_lost_scales(const TensorSource& source, const QuantizedLayers& layers);

// Throws corrupt for a scale of a tensor or of a row that is NaN or infinite, or zero where there are values to be scaled,
// and for such a factor of a column. Scales of blocks are many and are checked as they are used.
void check_scale_values(const TensorSource& source, const QuantizedLayer& layer,
                        const QuantizedWeight& weight);

}  // namespace tachy
