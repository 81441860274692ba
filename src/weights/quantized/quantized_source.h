// Joins 8-bit and 4-bit weights with their scales into one tensor each. Such weights in safetensors files of
// ComfyUI, LightX2V and musubi-tuner become entries under the weight's name that are made when they are read
// (TensorSource::Entry::derived). Tensors that only describe them are removed from the list.
//
//   X.scale_weight                     fp8_scaled of ComfyUI (beside a marker `scaled_fp8`), Kijai, musubi-tuner
//   X.weight_scale [_2], X.comfy_quant ComfyUI since 2025; the format as JSON in a tensor of bytes, or in the
//                                      header's metadata `_quantization_metadata`
//   X.weight_scale [out, 1]            LightX2V, int8 and e4m3
//   X.pre_quant_scale [in]             a factor for the layer's inputs, applied here to the weight's columns
//   X.scale_input, X.input_scale       for activations, which are not quantised here
//
// W = values · scale, with one scale for the tensor, for each row ([out], [out, 1]) or for each block of a
// row ([out, blocks, 1]). 8-bit floats without any scale stay as they are.
#pragma once

#include <memory>

#include "weights/tensor_source.h"

namespace tachy {

// Returns the same source if nothing is quantised. Throws corrupt (with the file, the tensor and the reason) for scales
// that do not fit their weights, and unsupported, with the name, for quantisations that this engine does not
// read.
std::shared_ptr<TensorSource> dequantized(const std::shared_ptr<TensorSource>& source);

}  // namespace tachy
