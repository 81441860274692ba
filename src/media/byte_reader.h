// Reads integers of either byte order from a range of bytes, and checks every access. Private to src/media.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/error.h"

namespace tachy {

class Bytes {
 public:
  Bytes(std::span<const uint8_t> data, std::string_view name, bool big_endian)
      : data_(data), name_(name), big_(big_endian) {}
  size_t size() const { return data_.size(); }
  bool has(size_t at, size_t count) const { return at <= data_.size() && data_.size() - at >= count; }
  uint64_t get(size_t at, int bytes) const {
    check(has(at, size_t(bytes)), ErrorCode::corrupt,
          "{}: picture ends at byte {} within its header (truncated?)", name_, data_.size());
    uint64_t v = 0;
    for (int i = 0; i < bytes; ++i) v |= uint64_t{data_[at + size_t(big_ ? bytes - 1 - i : i)]} << (8 * i);
    return v;
  }
  std::span<const uint8_t> part(size_t at, size_t count) const {
    check(has(at, count), ErrorCode::corrupt, "{}: picture claims {} bytes at byte {}, the file has {}",
          name_, count, at, data_.size());
    return data_.subspan(at, count);
  }

 private:
  std::span<const uint8_t> data_;
  std::string_view name_;
  bool big_;
};

inline bool starts_with(std::span<const uint8_t> data, size_t at, std::string_view text) {
  return data.size() >= text.size() && at <= data.size() - text.size() &&
         std::memcmp(data.data() + at, text.data(), text.size()) == 0;
}

inline std::string_view text_of(std::span<const uint8_t> data) {
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

}  // namespace tachy
