#include "weights/file_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/utf8.h"
#include "weights/quote.h"
#include "weights/tensor_range.h"

static_assert(std::endian::native == std::endian::little, "weights are written as they lie in memory");

namespace tachy {
namespace {

constexpr uint64_t kGgufAlignment = 32;  // the alignment of GGUF's tensors, unless a key says otherwise
constexpr size_t kMostGgufDims = 4;

std::string_view format_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::f16:
      return "F16";
    case DType::bf16:
      return "BF16";
    case DType::f8_e4m3:
      return "F8_E4M3";
    case DType::f8_e5m2:
      return "F8_E5M2";
    case DType::f64:
      return "F64";
    case DType::i64:
      return "I64";
    case DType::i32:
      return "I32";
    case DType::i16:
      return "I16";
    case DType::i8:
      return "I8";
    case DType::u8:
      return "U8";
    case DType::boolean:
      return "BOOL";
  }
  fail(ErrorCode::internal, "write_safetensors: unknown dtype");
}

std::string json_text(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::invalid_argument, "write_safetensors: {} is not UTF-8", in_quotes(text));
  }
}

std::vector<size_t> by_size_and_name(std::span<const StoredTensor> tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const int size_a = dtype_size(tensors[a].dtype), size_b = dtype_size(tensors[b].dtype);
    return size_a != size_b ? size_a > size_b : tensors[a].name < tensors[b].name;
  });
  return order;
}

// Writes little-endian numbers and strings one after another.
class GgufBytes {
 public:
  template <class T>
  void number(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void string(std::string_view value) {
    number(uint64_t{value.size()});
    text_.append(value);
  }
  void key(const GgufKey& key) {
    enum : uint32_t { kU32 = 4, kI32 = 5, kString = 8, kArray = 9 };
    string(key.name);
    if (const auto* text = std::get_if<std::string>(&key.value)) {
      number(uint32_t{kString}), string(*text);
    } else if (const auto* whole = std::get_if<uint32_t>(&key.value)) {
      number(uint32_t{kU32}), number(*whole);
    } else {
      const auto& values = std::get<std::vector<int32_t>>(key.value);
      number(uint32_t{kArray}), number(uint32_t{kI32}), number(uint64_t{values.size()});
      for (const int32_t value : values) number(value);
    }
  }
  void pad() { text_.resize((text_.size() + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment); }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// Merges the outermost dimensions, so rows stay rows, and blocks of a row stay blocks.
std::vector<int64_t> folded(std::vector<int64_t> dims) {
  if (dims.empty()) return {1};  // a scalar
  while (dims.size() > kMostGgufDims) {
    dims[1] *= dims[0];
    dims.erase(dims.begin());
  }
  return dims;
}

}  // namespace

uint64_t StoredTensor::bytes() const {
  const auto count = checked_bytes(dims, type ? DType::u8 : dtype);
  check(count.has_value(), ErrorCode::invalid_argument, "tensor {}: its shape is too large", in_quotes(name));
  if (!type) return *count;
  const int64_t row = dims.empty() ? 1 : dims.back();
  check(row % type->block_values == 0, ErrorCode::internal,
        "tensor {}: rows of {} values are no whole blocks of {}", in_quotes(name), row, type->name);
  return *count / static_cast<uint64_t>(type->block_values) * static_cast<uint64_t>(type->block_bytes);
}

FileLayout safetensors_layout(std::span<const StoredTensor> tensors,
                              const std::map<std::string, std::string>& metadata) {
  std::set<std::string_view> names;
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      if (header.back() != '{') header += ',';
      header += json_text(key) + ':' + json_text(value);
    }
    header += '}';
  }
  FileLayout out{.header = {}, .begins = std::vector<uint64_t>(tensors.size())};
  uint64_t offset = 0;
  for (const size_t i : by_size_and_name(tensors)) {
    const StoredTensor& tensor = tensors[i];
    require(tensor.name != "__metadata__" && names.insert(tensor.name).second,
            "write_safetensors: name {} is taken", in_quotes(tensor.name));
    if (header.size() > 1) header += ',';
    const uint64_t bytes = tensor.bytes();
    header +=
        fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", json_text(tensor.name),
                    format_name(tensor.dtype), fmt::join(tensor.dims, ","), offset, offset + bytes);
    out.begins[i] = offset;
    offset += bytes;
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t length = header.size();
  out.header = std::string(reinterpret_cast<const char*>(&length), 8) + header;
  for (uint64_t& begin : out.begins) begin += out.header.size();
  out.bytes = out.header.size() + offset;
  return out;
}

FileLayout gguf_layout(std::span<const StoredTensor> tensors, std::vector<GgufKey> keys) {
  std::set<std::string_view> names;
  for (const StoredTensor& tensor : tensors) {
    require(names.insert(tensor.name).second, "GGUF: name {} is taken", in_quotes(tensor.name));
    require(find_invalid_utf8(tensor.name) == kValidUtf8, "GGUF: name {} is not UTF-8",
            in_quotes(tensor.name));
    check(tensor.type != nullptr, ErrorCode::internal, "GGUF: tensor {} has no type", in_quotes(tensor.name));
    if (tensor.dims.size() > kMostGgufDims)
      keys.push_back({"comfy.gguf.orig_shape." + tensor.name,
                      std::vector<int32_t>(tensor.dims.begin(), tensor.dims.end())});
  }
  FileLayout out{.header = {}, .begins = std::vector<uint64_t>(tensors.size())};
  GgufBytes header;
  header.number(uint32_t{0x46554747});  // "GGUF"
  header.number(uint32_t{3});
  header.number(uint64_t{tensors.size()}), header.number(uint64_t{keys.size()});
  for (const GgufKey& key : keys) header.key(key);
  uint64_t offset = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::vector<int64_t> dims = folded(tensors[i].dims);
    header.string(tensors[i].name), header.number(static_cast<uint32_t>(dims.size()));
    for (auto extent = dims.rbegin(); extent != dims.rend(); ++extent)
      header.number(static_cast<uint64_t>(*extent));
    header.number(tensors[i].type->id), header.number(offset);
    out.begins[i] = offset;
    offset += (tensors[i].bytes() + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment;
  }
  header.pad();
  out.header = header.take();
  for (uint64_t& begin : out.begins) begin += out.header.size();
  out.bytes = out.header.size() + offset;
  return out;
}

}  // namespace tachy
