// Reads the header with a cursor that never passes the end, and computes the places of the tensors.
#include "weights/gguf/gguf_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "tensor/tensor.h"
#include "weights/overlap.h"
#include "weights/quote.h"

static_assert(std::endian::native == std::endian::little, "weights are read in place and are little endian");

namespace tachy {
namespace {

constexpr uint64_t kMaxItems = 1 << 20;  // the most tensors, and the most keys
constexpr uint64_t kMaxName = 65535;
constexpr int kMaxNesting = 4;  // depth of nested arrays
constexpr uint64_t kLeastKey = 8 + 4 + 1, kLeastTensor = 8 + 4 + 4 + 8;

// Returns the size of a scalar, or 0 for a string or an array.
uint64_t scalar_bytes(GgufKind kind) {
  switch (kind) {
    case GgufKind::u8:
    case GgufKind::i8:
    case GgufKind::boolean:
      return 1;
    case GgufKind::u16:
    case GgufKind::i16:
      return 2;
    case GgufKind::u32:
    case GgufKind::i32:
    case GgufKind::f32:
      return 4;
    case GgufKind::u64:
    case GgufKind::i64:
    case GgufKind::f64:
      return 8;
    case GgufKind::string:
    case GgufKind::array:
      break;
  }
  return 0;
}

class Cursor {
 public:
  Cursor(std::span<const std::byte> file, const std::string& path) : file_(file), path_(path) {}

  uint64_t at() const { return at_; }
  uint64_t left() const { return file_.size() - at_; }

  std::span<const std::byte> take(uint64_t bytes, std::string_view what) {
    check(bytes <= left(), ErrorCode::corrupt,
          "{}: byte {}: {} takes {} bytes, but the file ends after {} (truncated download?)", path_, at_,
          what, bytes, left());
    at_ += bytes;
    return file_.subspan(at_ - bytes, bytes);
  }

  template <class T>
  T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }

  // Reads the number of things that take at least `least` bytes each.
  uint64_t count(uint64_t least, uint64_t most, std::string_view what) {
    const auto value = number<uint64_t>(what);
    check(value <= most, ErrorCode::corrupt, "{}: byte {}: {}: {}, the limit is {}", path_, at_ - 8, what,
          value, most);
    check(value <= left() / least, ErrorCode::corrupt,
          "{}: byte {}: {}: {}, but the file ends after {} bytes (truncated download?)", path_, at_ - 8, what,
          value, left());
    return value;
  }

  std::string_view string(uint64_t most, std::string_view what) {
    const auto bytes = take(count(1, most, what), what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::string name(std::string_view what) {
    std::string out(string(kMaxName, what));
    check(!out.empty(), ErrorCode::corrupt, "{}: byte {}: {} is empty", path_, at_, what);
    return out;
  }

  GgufKind kind(std::string_view what) {
    const auto value = number<uint32_t>(what);
    check(value <= static_cast<uint32_t>(GgufKind::f64), ErrorCode::corrupt,
          "{}: byte {}: {} has the unknown kind {}", path_, at_ - 4, what, value);
    return static_cast<GgufKind>(value);
  }

  GgufValue value(std::string_view key) {
    GgufValue out{.kind = kind(key)};
    const uint64_t begin = at_;
    if (out.kind == GgufKind::array) {
      out.element = kind(key);
      out.count = elements(out.element, 1, key, out.bytes);
    } else if (out.kind == GgufKind::string) {
      const auto text = string(UINT64_MAX, key);
      out.bytes = file_.subspan(at_ - text.size(), text.size());
    } else {
      out.bytes = take(scalar_bytes(out.kind), key);
      check(out.kind != GgufKind::boolean || out.bytes[0] <= std::byte{1}, ErrorCode::corrupt,
            "{}: byte {}: {}: expected a boolean, got {}", path_, begin, key, static_cast<int>(out.bytes[0]));
    }
    return out;
  }

 private:
  // Moves past the elements of an array and returns their count.
  uint64_t elements(GgufKind element, int depth, std::string_view key, std::span<const std::byte>& bytes) {
    check(depth <= kMaxNesting, ErrorCode::corrupt, "{}: byte {}: {}: arrays are nested deeper than {}",
          path_, at_, key, kMaxNesting);
    const uint64_t scalar = scalar_bytes(element);
    const uint64_t least = scalar > 0 ? scalar : element == GgufKind::string ? 8 : 12;
    const uint64_t n = count(least, UINT64_MAX, key), begin = at_;
    if (scalar > 0) take(n * scalar, key);
    for (uint64_t i = 0; scalar == 0 && i < n; ++i) {
      if (element == GgufKind::string) {
        string(UINT64_MAX, key);
      } else {
        const GgufKind inner = kind(key);
        elements(inner, depth + 1, key, bytes);
      }
    }
    bytes = file_.subspan(begin, at_ - begin);
    return n;
  }

  std::span<const std::byte> file_;
  const std::string& path_;
  uint64_t at_ = 0;
};

uint32_t read_version(Cursor& in, const std::string& path) {
  const auto magic = in.take(4, "the magic");
  check(std::memcmp(magic.data(), "GGUF", 4) == 0, ErrorCode::corrupt, "{}: byte 0: expected \"GGUF\"", path);
  const auto version = in.number<uint32_t>("the version");
  check((version & 0xffff) != 0 || version == 0, ErrorCode::unsupported,
        "{}: byte 4: the file is big endian; convert it (gguf-convert-endian FILE little)", path);
  check(version == 2 || version == 3, ErrorCode::unsupported,
        "{}: byte 4: version {} of GGUF is not read, 2 and 3 are", path, version);
  return version;
}

GgufTensor read_tensor(Cursor& in, const std::string& path, uint64_t& offset) {
  GgufTensor out{.name = in.name("a tensor's name")};
  const std::string what = "tensor " + in_quotes(out.name);
  const auto rank = in.number<uint32_t>(what);
  check(rank <= kMaxDims, ErrorCode::corrupt, "{}: byte {}: {}: {} dimensions, the limit is {}", path,
        in.at() - 4, what, rank, kMaxDims);
  uint64_t values = 1;
  for (uint32_t i = 0; i < rank; ++i) {
    const auto extent = in.number<uint64_t>(what);
    check(extent <= INT64_MAX && (extent == 0 || values <= INT64_MAX / extent), ErrorCode::corrupt,
          "{}: byte {}: {}: its shape is too large", path, in.at() - 8, what);
    if (extent > 0) values *= extent;  // an extent of 0 must not hide an overflow
    out.dims.insert(out.dims.begin(), static_cast<int64_t>(extent));
  }
  if (out.dims.empty()) out.dims = {1};
  const auto id = in.number<uint32_t>(what);
  out.type = find_gguf_type(id);
  check(out.type != nullptr, ErrorCode::unsupported, "{}: byte {}: {}: type {} is unknown", path, in.at() - 4,
        what, id);
  const auto block = static_cast<uint64_t>(out.type->block_values),
             block_bytes = static_cast<uint64_t>(out.type->block_bytes);
  check(static_cast<uint64_t>(out.dims.back()) % block == 0, ErrorCode::corrupt,
        "{}: byte {}: {}: rows of {} values are no whole blocks of {}", path, in.at(), what, out.dims.back(),
        out.type->name);
  const bool empty = std::find(out.dims.begin(), out.dims.end(), 0) != out.dims.end();
  check(values / block <= INT64_MAX / block_bytes, ErrorCode::corrupt,
        "{}: byte {}: {}: its shape is too large", path, in.at(), what);
  out.bytes = empty ? 0 : values / block * block_bytes;
  offset = in.number<uint64_t>(what);
  return out;
}

}  // namespace

GgufHeader::GgufHeader(std::span<const std::byte> file, std::string path) : path_(std::move(path)) {
  Cursor in(file, path_);
  version_ = read_version(in, path_);
  const uint64_t tensor_count = in.count(kLeastTensor, kMaxItems, "the number of tensors");
  const uint64_t key_count = in.count(kLeastKey, kMaxItems, "the number of keys");
  for (uint64_t i = 0; i < key_count; ++i) {
    const uint64_t begin = in.at();
    std::string key = in.name("a key's name");
    const GgufValue value = in.value("key " + in_quotes(key));
    check(values_.emplace(key, value).second, ErrorCode::corrupt, "{}: byte {}: key {} appears twice", path_,
          begin, in_quotes(key));
  }
  if (const auto alignment = integer("general.alignment")) {
    check(*alignment > 0 && std::has_single_bit(static_cast<uint64_t>(*alignment)), ErrorCode::corrupt,
          "{}: general.alignment: expected a power of two, got {}", path_, *alignment);
    alignment_ = static_cast<uint64_t>(*alignment);
  }
  std::vector<uint64_t> offsets(tensor_count);
  tensors_.reserve(tensor_count);
  for (uint64_t i = 0; i < tensor_count; ++i) tensors_.push_back(read_tensor(in, path_, offsets[i]));
  place(file, in.at(), offsets);
}

void GgufHeader::place(std::span<const std::byte> file, uint64_t header_bytes,
                       std::span<const uint64_t> offsets) {
  const uint64_t padding = (alignment_ - header_bytes % alignment_) % alignment_;
  const uint64_t available = file.size() - header_bytes;
  const uint64_t begin = header_bytes + std::min(padding, available), data_bytes = file.size() - begin;
  std::vector<ByteRange> ranges;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    GgufTensor& tensor = tensors_[i];
    const uint64_t offset = offsets[i];
    check(offset % alignment_ == 0, ErrorCode::corrupt,
          "{}: tensor {}: data offset {} is not a multiple of {}, the alignment", path_,
          in_quotes(tensor.name), offset, alignment_);
    check(offset <= data_bytes && tensor.bytes <= data_bytes - offset, ErrorCode::corrupt,
          "{}: tensor {}: {} bytes from {} on lie outside the {} bytes of data (truncated download?)", path_,
          in_quotes(tensor.name), tensor.bytes, offset, data_bytes);
    tensor.data = file.data() + begin + offset;
    ranges.push_back({offset, offset + tensor.bytes, tensor.name});
  }
  refuse_overlaps(path_, std::move(ranges));
}

}  // namespace tachy
