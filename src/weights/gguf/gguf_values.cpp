// Reads values of keys by kind. All kinds of integers count as integers, because writers choose different
// widths.
#include <fmt/format.h>

#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "weights/gguf/gguf_header.h"
#include "weights/quote.h"

namespace tachy {
namespace {

template <class T>
T scalar(std::span<const std::byte> bytes, uint64_t i = 0) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

// Calls use(T) with element `i` in its own type; does nothing for strings and arrays.
template <class Use>
void visit(GgufKind kind, std::span<const std::byte> bytes, uint64_t i, Use&& use) {
  switch (kind) {
    case GgufKind::u8:
      return use(scalar<uint8_t>(bytes, i));
    case GgufKind::i8:
      return use(scalar<int8_t>(bytes, i));
    case GgufKind::u16:
      return use(scalar<uint16_t>(bytes, i));
    case GgufKind::i16:
      return use(scalar<int16_t>(bytes, i));
    case GgufKind::u32:
      return use(scalar<uint32_t>(bytes, i));
    case GgufKind::i32:
      return use(scalar<int32_t>(bytes, i));
    case GgufKind::f32:
      return use(scalar<float>(bytes, i));
    case GgufKind::boolean:
      return use(bytes[i] != std::byte{0});
    case GgufKind::u64:
      return use(scalar<uint64_t>(bytes, i));
    case GgufKind::i64:
      return use(scalar<int64_t>(bytes, i));
    case GgufKind::f64:
      return use(scalar<double>(bytes, i));
    case GgufKind::string:
    case GgufKind::array:
      return;
  }
}

std::optional<int64_t> as_integer(GgufKind kind, std::span<const std::byte> bytes, uint64_t i) {
  std::optional<int64_t> out;
  visit(kind, bytes, i, [&](auto value) {
    using T = decltype(value);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (!std::is_same_v<T, uint64_t> || static_cast<uint64_t>(value) <= INT64_MAX)
        out = static_cast<int64_t>(value);
    }
  });
  return out;
}

}  // namespace

const GgufValue* GgufHeader::find(std::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

const GgufValue* GgufHeader::array(std::string_view key) const {
  const auto* value = find(key);
  if (value && value->kind != GgufKind::array) wrong_kind(key, "an array");
  return value;
}

void GgufHeader::wrong_kind(std::string_view key, std::string_view expected) const {
  fail(ErrorCode::corrupt, "{}: key {}: expected {}", path_, in_quotes(key), expected);
}

std::optional<std::string_view> GgufHeader::text(std::string_view key) const {
  const auto* value = find(key);
  if (!value) return std::nullopt;
  if (value->kind != GgufKind::string) wrong_kind(key, "a string");
  return std::string_view(reinterpret_cast<const char*>(value->bytes.data()), value->bytes.size());
}

std::optional<int64_t> GgufHeader::integer(std::string_view key) const {
  const auto* value = find(key);
  if (!value) return std::nullopt;
  const auto out = as_integer(value->kind, value->bytes, 0);
  if (!out) wrong_kind(key, "an integer of 63 bits");
  return out;
}

std::optional<bool> GgufHeader::flag(std::string_view key) const {
  const auto* value = find(key);
  if (!value) return std::nullopt;
  if (value->kind != GgufKind::boolean) wrong_kind(key, "a boolean");
  return value->bytes[0] != std::byte{0};
}

std::optional<std::vector<int64_t>> GgufHeader::integers(std::string_view key) const {
  const auto* value = array(key);
  if (!value) return std::nullopt;
  std::vector<int64_t> out;
  for (uint64_t i = 0; i < value->count; ++i) {
    const auto element = as_integer(value->element, value->bytes, i);
    if (!element) wrong_kind(key, "integers of 63 bits");
    out.push_back(*element);
  }
  return out;
}

std::optional<std::vector<float>> GgufHeader::floats(std::string_view key) const {
  const auto* value = array(key);
  if (!value) return std::nullopt;
  if (value->element != GgufKind::f32) wrong_kind(key, "an array of float32");
  std::vector<float> out(value->count);
  if (!out.empty()) std::memcpy(out.data(), value->bytes.data(), value->bytes.size());
  return out;
}

std::optional<std::vector<std::string_view>> GgufHeader::texts(std::string_view key) const {
  const auto* value = array(key);
  if (!value) return std::nullopt;
  if (value->element != GgufKind::string) wrong_kind(key, "an array of strings");
  std::vector<std::string_view> out(value->count);
  uint64_t at = 0;
  for (auto& text : out) {  // their lengths were checked when the header was read
    const auto length = scalar<uint64_t>(value->bytes.subspan(at));
    text = {reinterpret_cast<const char*>(value->bytes.data() + at + 8), length};
    at += 8 + length;
  }
  return out;
}

std::optional<std::string_view> GgufHeader::bytes(std::string_view key) const {
  const auto* value = array(key);
  if (!value) return std::nullopt;
  if (value->element != GgufKind::u8 && value->element != GgufKind::i8) wrong_kind(key, "an array of bytes");
  return std::string_view(reinterpret_cast<const char*>(value->bytes.data()), value->bytes.size());
}

std::optional<std::string> GgufHeader::shown(const GgufValue& value) {
  if (value.kind == GgufKind::string)
    return std::string(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
  std::optional<std::string> out;
  visit(value.kind, value.bytes, 0, [&](auto number) { out = fmt::format("{}", number); });
  return out;
}

}  // namespace tachy
