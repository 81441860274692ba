// The header of a GGUF file, read and checked: keys with values, and where the tensors lie.
//
//   "GGUF"  u32 version  u64 tensors  u64 keys
//   a key:     string  u32 kind  value             string: u64 bytes, then these
//   a tensor:  string  u32 rank  u64 extents[rank] (the innermost first)  u32 type  u64 offset
//   data, from the next multiple of general.alignment (32) on
//
// Nothing in the file is trusted: every count is compared with the bytes that are left before memory is
// allocated or elements are read. Numbers are little endian. Versions 2 and 3 are the same here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/gguf_types.h"

namespace tachy {

enum class GgufKind : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

struct GgufValue {
  GgufKind kind = GgufKind::u8;
  GgufKind element = GgufKind::u8;  // kind of an array's elements
  uint64_t count = 0;               // number of an array's elements
  // the bytes of a scalar or a string, or of an array's elements as the file stores them
  std::span<const std::byte> bytes = {};
};

struct GgufTensor {
  std::string name;
  std::vector<int64_t> dims;  // outermost first, as everywhere here; a scalar is [1]
  const GgufType* type = nullptr;
  const std::byte* data = nullptr;
  uint64_t bytes = 0;
};

class GgufHeader {
 public:
  // `file` must outlive the header. Throws corrupt or unsupported with `path`, the offset and the reason.
  GgufHeader(std::span<const std::byte> file, std::string path);

  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  std::span<const GgufTensor> tensors() const { return tensors_; }
  const std::map<std::string, GgufValue, std::less<>>& values() const { return values_; }

  // Each of these returns nothing if the key is absent, and throws corrupt if its value is of another kind.
  std::optional<std::string_view> text(std::string_view key) const;
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;
  std::optional<std::vector<int64_t>> integers(std::string_view key) const;
  std::optional<std::vector<float>> floats(std::string_view key) const;
  std::optional<std::vector<std::string_view>> texts(std::string_view key) const;
  // Returns the bytes of an array of 8-bit elements.
  std::optional<std::string_view> bytes(std::string_view key) const;

  // Returns a scalar or a string as text for people, but nothing for an array.
  static std::optional<std::string> shown(const GgufValue& value);

 private:
  const GgufValue* find(std::string_view key) const;
  const GgufValue* array(std::string_view key) const;
  [[noreturn]] void wrong_kind(std::string_view key, std::string_view expected) const;
  void place(std::span<const std::byte> file, uint64_t header_bytes, std::span<const uint64_t> offsets);

  std::string path_;
  uint32_t version_ = 0;
  uint64_t alignment_ = 32;
  std::map<std::string, GgufValue, std::less<>> values_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace tachy
