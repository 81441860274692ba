// Finds by name which tensors of a file describe which layer's quantised weight, and the formats that the
// file states.
#pragma once

#include <map>
#include <set>
#include <string>

#include "weights/tensor_source.h"

namespace tachy {

struct QuantizedLayer {
  using Entry = TensorSource::Entry;
  std::string name;    // "blocks.0.ffn.0", with the file's prefix
  std::string format;  // "float8_e4m3fn" …; empty if the file states none
  const Entry* weight = nullptr;
  const Entry* scale = nullptr;
  const Entry* scale_2 = nullptr;
  const Entry* column_scale = nullptr;
  const Entry* input_scale = nullptr;
  const Entry* marker = nullptr;  // comfy_quant
  const Entry* any() const;       // any entry that describes the layer; null if only the metadata does
};

struct QuantizedLayers {
  std::map<std::string, QuantizedLayer, std::less<>> layers;  // by name
  std::set<const TensorSource::Entry*> markers;               // scaled_fp8, whose contents are not needed
  // the layer's name for each entry of a layer
  std::map<const TensorSource::Entry*, std::string> names;

  // Returns end() for an entry that belongs to no layer.
  std::map<std::string, QuantizedLayer, std::less<>>::const_iterator layer_of(
      const TensorSource::Entry& entry) const {
    const auto name = names.find(&entry);
    return name == names.end() ? layers.end() : layers.find(name->second);
  }
};

// Throws corrupt for malformed JSON and for contradictory descriptions of a weight. Throws unsupported, with
// the name, for quantisations that this engine does not read.
QuantizedLayers quantized_layers(const TensorSource& source);

}  // namespace tachy
