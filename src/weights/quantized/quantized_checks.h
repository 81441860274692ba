// Checks for damage to a quantised file that shows in no name or shape: scales that are missing from some of
// its weights, and scales that are zero or not finite.
#pragma once

#include "weights/quantized/quantized_layers.h"
#include "weights/quantized/quantized_tensor.h"

namespace tachy {

// Throws corrupt for an 8-bit float weight without a scale if others of the same part of a model have one:
// without it, its values are a few hundred times too large or too small. Weights that no quantiser scales
// (embeddings, convolutions, vectors) may be without.
void refuse_lost_scales(const TensorSource& source, const QuantizedLayers& layers);

// Throws corrupt if the scale of a tensor, a row or a column is NaN or infinite, or is zero although there
// are values to scale. Scales of blocks are many and are checked as they are used.
void check_scale_values(const TensorSource& source, const QuantizedLayer& layer,
                        const QuantizedWeight& weight);

}  // namespace tachy
