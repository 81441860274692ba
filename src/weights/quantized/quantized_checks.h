// Finds damage to a quantised file that no name or shape reveals: weights that lack scales, and scales that
// are zero or not finite.
#pragma once

#include "weights/quantized/quantized_layers.h"
#include "weights/quantized/quantized_tensor.h"

namespace tachy {

// Throws corrupt for an 8-bit float weight without a scale if others in the same part of a model have one.
// Without its scale, its values are a few hundred times too large or too small. Weights that no quantiser
// scales (embeddings, convolutions, vectors) are accepted.
void refuse_lost_scales(const TensorSource& source, const QuantizedLayers& layers);

// Throws corrupt if the scale of a tensor, a row or a column is NaN or infinite, or is zero although it has
// values to scale. Scales of blocks are too many, and are checked when they are used.
void check_scale_values(const TensorSource& source, const QuantizedLayer& layer,
                        const QuantizedWeight& weight);

}  // namespace tachy
