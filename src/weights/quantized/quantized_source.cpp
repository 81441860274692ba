// First the tensors that describe a weight are grouped with it, by their names alone (quantized_layers.h).
// Then each such layer becomes an entry (make_entry), once its dtypes, shapes and formats have been checked.
#include "weights/quantized/quantized_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "weights/quantized/quantized_checks.h"
#include "weights/quantized/quantized_layers.h"
#include "weights/quantized/quantized_tensor.h"
#include "weights/quote.h"
#include "weights/tensor_range.h"

namespace tachy {
namespace {

using Entry = TensorSource::Entry;

// Reports in one form what is wrong with a tensor of a layer.
template <class... Args>
[[noreturn]] void refuse(ErrorCode code, const TensorSource& source, const Entry& entry,
                         fmt::format_string<Args...> text, Args&&... args) {
  fail(code, "{}: tensor {}: {}", source.file_of(entry), in_quotes(entry.name_in_file),
       fmt::format(text, std::forward<Args>(args)...));
}

bool is_small_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}
bool is_8_bits(DType dtype) {
  return dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2 || dtype == DType::i8;
}

int64_t count_of(const Entry& entry) { return static_cast<int64_t>(entry.bytes) / dtype_size(entry.dtype); }

const std::byte* bytes_of(const Entry& entry) { return static_cast<const std::byte*>(entry.data); }

class LayerReader {
 public:
  LayerReader(const TensorSource& source, const QuantizedLayer& layer) : source_(source), layer_(layer) {}

  Entry make_entry() {
    check_weight();
    Entry out = weight();
    const Quantization kind = kind_of_layer();
    made_.data = bytes_of(weight()), made_.dtype = weight().dtype;
    made_.rows = weight().dims[0], made_.width = made_.rows > 0 ? count_of(weight()) / made_.rows : 0;
    if (kind == Quantization::nvfp4) made_.width *= 2, out.dims[1] *= 2;
    kind == Quantization::scaled ? take_scales() : take_block_scales(kind);
    if (layer_.scale_2 && kind != Quantization::nvfp4)
      refuse(ErrorCode::corrupt, source_, *layer_.scale_2, "only nvfp4 has a second scale, {} is {}",
             in_quotes(weight().name_in_file), format());
    take_column_scale();
    check_input_scale();
    check_scale_values(source_, layer_, made_);
    made_.name = fmt::format("{}: tensor {}", source_.file_of(weight()), in_quotes(weight().name_in_file));
    for (const Entry* part : {layer_.weight, layer_.scale, layer_.scale_2, layer_.column_scale})
      if (part) made_.files.push_back(source_.files().at(part->file));
    out.bytes = weight().bytes + layer_.scale->bytes;
    out.dtype = DType::f32, out.data = nullptr;
    out.derived = make_quantized(kind, std::move(made_));
    return out;
  }

 private:
  const Entry& weight() const { return *layer_.weight; }
  std::string format() const {
    return layer_.format.empty() ? std::string(dtype_name(weight().dtype)) : layer_.format;
  }

  void check_weight() const {
    const Entry* first = layer_.any();
    if (!layer_.weight)
      fail(ErrorCode::corrupt, "{}: {} describes {}, which is missing",
           first ? source_.file_of(*first) : source_.files_text(),
           first ? "tensor " + in_quotes(first->name_in_file) : "the metadata _quantization_metadata",
           in_quotes(layer_.name + ".weight"));
    for (const Entry* part :
         {layer_.weight, layer_.scale, layer_.scale_2, layer_.column_scale, layer_.input_scale})
      if (part && !part->unusable.empty())
        refuse(ErrorCode::unsupported, source_, *part, "{}", part->unusable);
    if (weight().bytes == 0)
      refuse(ErrorCode::corrupt, source_, weight(), "a quantised weight without values");
    if (weight().derived) refuse(ErrorCode::corrupt, source_, weight(), "is quantised twice");
    if (!layer_.scale)
      refuse(ErrorCode::corrupt, source_, weight(), "it is {} and needs a scale, {}, which is missing",
             format(), in_quotes(layer_.name + ".weight_scale"));
  }

  // Takes the format that the file states, or, if there is none, the weight's dtype.
  Quantization kind_of_layer() const {
    struct Format {
      std::string_view name;
      DType weight;
      Quantization kind;
    };
    static constexpr Format kFormats[] = {{"float8_e4m3fn", DType::f8_e4m3, Quantization::scaled},
                                          {"float8_e5m2", DType::f8_e5m2, Quantization::scaled},
                                          {"int8_tensorwise", DType::i8, Quantization::scaled},
                                          {"mxfp8", DType::f8_e4m3, Quantization::mxfp8},
                                          {"nvfp4", DType::u8, Quantization::nvfp4}};
    if (layer_.format.empty()) {
      if (!is_8_bits(weight().dtype))
        refuse(ErrorCode::corrupt, source_, *layer_.scale,
               "it is the scale of {}, which is {}, expected 8-bit values", in_quotes(weight().name_in_file),
               dtype_name(weight().dtype));
      return Quantization::scaled;
    }
    for (const Format& known : kFormats) {
      if (known.name != layer_.format) continue;
      const bool matrix = weight().dims.size() == 2 || known.kind == Quantization::scaled;
      if (weight().dtype != known.weight || !matrix)
        refuse(ErrorCode::corrupt, source_, weight(), "its format is {}, but it is {} {}", layer_.format,
               dtype_name(weight().dtype), shape_string(weight().dims));
      return known.kind;
    }
    refuse(ErrorCode::unsupported, source_, weight(),
           "it is quantised as {}; float8_e4m3fn, float8_e5m2, int8_tensorwise, mxfp8 and nvfp4 are read",
           in_quotes(layer_.format, 60));
  }

  [[noreturn]] void wrong_scale(const Entry& scale, const std::string& expected) const {
    refuse(ErrorCode::corrupt, source_, scale, "for {} {} {} expected {}, got {} {}",
           in_quotes(weight().name_in_file), dtype_name(weight().dtype), shape_string(weight().dims),
           expected, dtype_name(scale.dtype), shape_string(scale.dims));
  }

  // There is one scale for all values, one for each row, or one for each block of a row.
  void take_scales() {
    const Entry& scale = *layer_.scale;
    const auto& dims = scale.dims;
    const std::string expected =
        fmt::format("one scale (f32, f16 or bf16), or [{}], [{}, 1] or [{}, blocks, 1] of them", made_.rows,
                    made_.rows, made_.rows);
    if (!is_small_float(scale.dtype)) wrong_scale(scale, expected);
    made_.scale = {bytes_of(scale), scale.dtype};
    const bool ones_behind = std::all_of(dims.begin() + 1, dims.end(), [](int64_t d) { return d == 1; });
    if (ones_behind && dims[0] == 1) return;
    made_.scale_rows = made_.rows;
    if (ones_behind && dims[0] == made_.rows) return;
    if (dims.size() != 3 || dims[0] != made_.rows || dims[2] != 1 || dims[1] < 1 ||
        weight().dims.size() != 2 || made_.width % dims[1] != 0)
      wrong_scale(scale, expected);
    made_.scale_blocks = dims[1];
  }

  void take_block_scales(Quantization kind) {
    const Entry& scale = *layer_.scale;
    const bool nv = kind == Quantization::nvfp4;
    const int64_t block = nv ? 16 : 32;
    if (made_.width % block != 0)
      refuse(ErrorCode::corrupt, source_, weight(), "{} needs a multiple of {} columns, got {}",
             layer_.format, block, made_.width);
    const auto bytes = checked_tiles(made_.rows, made_.width / block);
    if (scale.dtype != (nv ? DType::f8_e4m3 : DType::u8) || scale.bytes != bytes)
      wrong_scale(scale, fmt::format("{} scales of blocks of {} ({} bytes in tiles of 128 x 4)",
                                     nv ? "f8_e4m3" : "e8m0", block, bytes));
    made_.block_scale = bytes_of(scale);
    if (!nv) return;
    if (!layer_.scale_2)
      refuse(ErrorCode::corrupt, source_, weight(), "nvfp4 needs a second scale, {}, which is missing",
             in_quotes(layer_.name + ".weight_scale_2"));
    if (layer_.scale_2->dtype != DType::f32 || count_of(*layer_.scale_2) != 1)
      wrong_scale(*layer_.scale_2, "one f32 scale");
    made_.scale = {bytes_of(*layer_.scale_2), DType::f32};
  }

  // Rows and columns are those of a tensor in the file, so rounding them up cannot overflow.
  static uint64_t checked_tiles(int64_t rows, int64_t blocks) {
    return static_cast<uint64_t>(tiled_bytes(rows, blocks));
  }

  void take_column_scale() {
    if (!layer_.column_scale) return;
    const Entry& scale = *layer_.column_scale;
    if (!is_small_float(scale.dtype) || scale.dims != std::vector{made_.width} || weight().dims.size() != 2)
      wrong_scale(scale, fmt::format("[{}] factors of the columns (f32, f16 or bf16)", made_.width));
    made_.column_scale = {bytes_of(scale), scale.dtype};
  }

  // Activations are not quantised here, but a tensor of that name must be a single number.
  void check_input_scale() const {
    if (layer_.input_scale &&
        (!is_small_float(layer_.input_scale->dtype) || count_of(*layer_.input_scale) != 1))
      wrong_scale(*layer_.input_scale, "one scale of the inputs (f32, f16 or bf16)");
  }

  const TensorSource& source_;
  const QuantizedLayer& layer_;
  QuantizedWeight made_;
};

// Says whether a layer only has quantised inputs, but no quantised weight.
bool only_inputs(const QuantizedLayer& layer) {
  return !layer.scale && !layer.scale_2 && !layer.column_scale && layer.format.empty() &&
         is_small_float(layer.weight->dtype);
}

}  // namespace

std::shared_ptr<TensorSource> dequantized(const std::shared_ptr<TensorSource>& source) {
  const QuantizedLayers found = quantized_layers(*source);
  refuse_lost_scales(*source, found);
  std::vector<Entry> entries;
  for (const Entry& entry : source->entries()) {
    const auto layer = found.layer_of(entry);
    if (layer != found.layers.end() && layer->second.weight == &entry) {
      if (only_inputs(layer->second))
        entries.push_back(entry);
      else
        entries.push_back(LayerReader(*source, layer->second).make_entry());
    } else if (layer == found.layers.end() && !found.markers.contains(&entry)) {
      entries.push_back(entry);
    }
  }
  for (const auto& [name, layer] : found.layers)
    if (!layer.weight) LayerReader(*source, layer).make_entry();  // throws
  if (found.layers.empty() && found.markers.empty()) return source;
  return std::make_shared<TensorSource>(std::move(entries), source->files(), source->metadata());
}

}  // namespace tachy
