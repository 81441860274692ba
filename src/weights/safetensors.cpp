// The reader is a streaming JSON handler. It builds no document tree (1,300 tensors parse in about a
// millisecond), notices repeated keys, and refuses JSON at the point where it is nested deeper than the
// format allows.
#include "weights/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "weights/overlap.h"
#include "weights/quote.h"
#include "weights/tensor_range.h"

static_assert(std::endian::native == std::endian::little, "weights are read in place and are little endian");

namespace tachy {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000;

struct DTypeName {
  std::string_view name;
  DType dtype;
  uint64_t unread_bits = 0;  // bits in a value that nothing here reads, and whose dtype is one of bytes
};
constexpr DTypeName kDTypes[] = {
    {"F64", DType::f64},
    {"F32", DType::f32},
    {"F16", DType::f16},
    {"BF16", DType::bf16},
    {"F8_E4M3", DType::f8_e4m3},
    {"F8_E5M2", DType::f8_e5m2},
    {"I64", DType::i64},
    {"I32", DType::i32},
    {"I16", DType::i16},
    {"I8", DType::i8},
    {"U8", DType::u8},
    {"BOOL", DType::boolean},
    {"F8_E8M0", DType::u8},  // powers of two that only serve as scales, so they are read as bytes
    {"F4", DType::u8, 4},
    {"F6_E2M3", DType::u8, 6},
    {"F6_E3M2", DType::u8, 6},
    {"U16", DType::u8, 16},
    {"U32", DType::u8, 32},
    {"U64", DType::u8, 64},
    {"C64", DType::u8, 64},
    {"C128", DType::u8, 128},
    {"F8_E4M3FNUZ", DType::u8, 8},
    {"F8_E5M2FNUZ", DType::u8, 8},
};

struct Header {
  struct Item {
    std::string name;
    const DTypeName* dtype = nullptr;
    bool has_shape = false;
    std::vector<int64_t> shape;
    std::vector<uint64_t> offsets;
  };
  std::vector<Item> items;
  std::map<std::string, std::string> metadata;
};

// Implements nlohmann's SAX interface. To stop, a method sets error_ and returns false.
class HeaderHandler {
 public:
  explicit HeaderHandler(Header& header) : header_(header) {}
  const std::string& error() const { return error_; }

  bool null() { return unexpected("null"); }
  bool boolean(bool) { return unexpected("a boolean"); }
  bool number_integer(int64_t) { return unexpected("a negative number"); }
  bool number_float(double, const std::string&) { return unexpected("a fraction or a number above 64 bits"); }
  bool binary(std::vector<uint8_t>&) { return unexpected("binary"); }

  bool number_unsigned(uint64_t value) {
    if (depth_ != 3 || !in_array_) return unexpected("a number");
    auto& item = header_.items.back();
    if (key_ == "shape") {
      if (item.shape.size() == kMaxDims) return stop("expected at most {} dimensions", kMaxDims);
      if (value > static_cast<uint64_t>(INT64_MAX)) return stop("extent {} is too large", value);
      item.shape.push_back(static_cast<int64_t>(value));
    } else {
      if (item.offsets.size() == 2) return stop("expected two data_offsets, got more");
      item.offsets.push_back(value);
    }
    return true;
  }

  bool string(std::string& value) {
    if (depth_ == 2 && in_metadata_) {
      if (!header_.metadata.emplace(key_, value).second) return stop("key {} appears twice", in_quotes(key_));
      return true;
    }
    if (depth_ != 2 || key_ != "dtype") return unexpected("a string");
    auto& item = header_.items.back();
    if (item.dtype) return stop("dtype appears twice");
    for (const DTypeName& known : kDTypes)
      if (known.name == value) item.dtype = &known;
    if (!item.dtype) return stop("unknown dtype {}", in_quotes(value, 32));
    return true;
  }

  bool start_object(size_t) {
    if (in_array_ || depth_ >= 2) return unexpected("an object");
    if (++depth_ == 2) {
      in_metadata_ = name_ == "__metadata__";
      if (!in_metadata_) header_.items.push_back({.name = name_});
    }
    return true;
  }

  bool key(std::string& value) {
    if (depth_ == 1) {
      name_ = value;
      return true;
    }
    key_ = value;
    if (in_metadata_ || key_ == "dtype" || key_ == "shape" || key_ == "data_offsets") return true;
    return stop("unknown key {}", in_quotes(key_));
  }

  bool end_object() {
    if (depth_ == 2 && !in_metadata_) {
      const auto& item = header_.items.back();
      if (!item.dtype) return stop("dtype is missing");
      if (!item.has_shape) return stop("shape is missing");
      if (item.offsets.size() != 2) return stop("expected two data_offsets, got {}", item.offsets.size());
    }
    in_metadata_ = false;
    --depth_;
    return true;
  }

  bool start_array(size_t) {
    if (depth_ != 2 || in_metadata_ || in_array_ || key_ == "dtype") return unexpected("an array");
    auto& item = header_.items.back();
    if (key_ == "shape" ? item.has_shape : !item.offsets.empty()) return stop("{} appears twice", key_);
    if (key_ == "shape") item.has_shape = true;
    in_array_ = true;
    ++depth_;
    return true;
  }

  bool end_array() {
    in_array_ = false;
    --depth_;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& e) {
    std::string_view what = e.what();  // "[json.exception.parse_error.101] parse error at …: syntax error …"
    if (const auto bracket = what.find("] "); bracket != what.npos) what.remove_prefix(bracket + 2);
    error_ = fmt::format("byte {}: {}", position + 7, printable(what, 200));  // position counts from 1
    return false;
  }

 private:
  template <class... Args>
  bool stop(fmt::format_string<Args...> text, Args&&... args) {
    error_ = fmt::format("tensor {}: {}", in_quotes(name_), fmt::format(text, std::forward<Args>(args)...));
    return false;
  }
  bool unexpected(std::string_view what) {
    if (depth_ == 0) {
      error_ = fmt::format("expected an object, got {}", what);
      return false;
    }
    return stop("{} where the format has none", what);
  }

  Header& header_;
  std::string name_, key_, error_;
  int depth_ = 0;
  bool in_array_ = false, in_metadata_ = false;
};

// Says whether the shape takes exactly `bytes`. Values smaller than a byte share bytes.
bool takes(std::span<const int64_t> shape, const DTypeName& dtype, uint64_t bytes) {
  const auto count = checked_bytes(shape, dtype.unread_bits > 0 ? DType::u8 : dtype.dtype);
  if (!count || dtype.unread_bits == 0) return count == bytes;
  if (*count / 8 > bytes) return false;  // no dtype is smaller than a bit, so nothing overflows
  return *count / 8 * dtype.unread_bits + (*count % 8 * dtype.unread_bits + 7) / 8 == bytes;
}

TensorSource::Entry make_entry(const Header::Item& item, const std::byte* data) {
  const uint64_t begin = item.offsets[0];
  TensorSource::Entry entry{.name = item.name,
                            .name_in_file = item.name,
                            .dtype = item.dtype->dtype,
                            .dims = item.shape.empty() ? std::vector<int64_t>{1} : item.shape,
                            .data = data + begin,
                            .bytes = item.offsets[1] - begin};
  if (item.dtype->unread_bits == 0) return entry;
  entry.data = nullptr;
  entry.unusable = fmt::format("its dtype {} is not read", item.dtype->name);
  return entry;
}

}  // namespace

std::shared_ptr<TensorSource> open_safetensors(const std::filesystem::path& path_, FileAccess access) {
  auto file = std::make_shared<const MappedFile>(path_, access);
  const std::string& path = file->path();
  check(file->size() >= 8, ErrorCode::corrupt, "{}: expected a safetensors file, got {} bytes", path,
        file->size());
  uint64_t length = 0;
  std::memcpy(&length, file->data(), 8);
  check(length <= kMaxHeader, ErrorCode::corrupt, "{}: byte 0: header of {} bytes, the limit is {}", path,
        length, kMaxHeader);
  check(length <= file->size() - 8, ErrorCode::corrupt,
        "{}: byte 0: header of {} bytes, but the file has {} (truncated download?)", path, length,
        file->size());

  Header header;
  HeaderHandler handler(header);
  const char* text = reinterpret_cast<const char*>(file->data()) + 8;
  check(nlohmann::json::sax_parse(text, text + length, &handler), ErrorCode::corrupt, "{}: header: {}", path,
        handler.error());

  const uint64_t data_bytes = file->size() - 8 - length;
  std::vector<TensorSource::Entry> entries;
  std::vector<ByteRange> ranges;
  entries.reserve(header.items.size());
  for (const auto& item : header.items) {
    const uint64_t begin = item.offsets[0], end = item.offsets[1];
    check(begin <= end && end <= data_bytes, ErrorCode::corrupt,
          "{}: tensor {}: data_offsets [{}, {}] lie outside the {} bytes of data (truncated download?)", path,
          in_quotes(item.name), begin, end, data_bytes);
    check(takes(item.shape, *item.dtype, end - begin), ErrorCode::corrupt,
          "{}: tensor {}: {} {} does not take the {} bytes given", path, in_quotes(item.name),
          item.dtype->name, shape_string(item.shape), end - begin);
    ranges.push_back({begin, end, item.name});
    entries.push_back(make_entry(item, file->data() + 8 + length));
  }
  refuse_overlaps(path, std::move(ranges));
  return std::make_shared<TensorSource>(std::move(entries), std::vector{file}, std::move(header.metadata));
}

}  // namespace tachy
