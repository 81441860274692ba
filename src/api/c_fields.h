// Fields of the C interface: a request's settings and an engine's options from texts, and their tables as JSON.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "api/tachyscope.h"
#include "api/tachyscope_c_v2.h"

namespace tachy {

// Returns the text, or "" for null. Throws invalid_argument, naming the field, for more than kMostCText bytes.
inline constexpr size_t kMostCText = 1 << 20;
std::string c_text(std::string_view field, const char* text);

// Returns what `count` entries at `first` are. Throws invalid_argument for a count that no caller means, and for null
// with entries.
template <class T>
std::span<const T> c_span(std::string_view field, const T* first, int32_t count) {
  require(count >= 0 && count <= 4096 && (first || count == 0), "`{}`: expected 0 to 4096 entries, got {}{}",
          field, count, first ? "" : " at a null pointer");
  return {first, static_cast<size_t>(count)};
}

// Set the fields that are named, after one another. Throws invalid_argument for an unknown name and for a text that is
// not a value of the field; whether the value is allowed is checked when the request is resolved.
void set_fields(VideoRequest& request, std::span<const tachyscope_setting> settings);
void set_fields(EngineOptions& options, std::span<const tachyscope_setting> settings);

// Returns the tables of a request's fields, its inputs, and an engine's options.
std::string fields_json();

// Throws invalid_argument unless `size` is that of a struct with at least `least` bytes that this library knows, or of a
// newer one whose further bytes are zero. An older header's struct had `least` bytes, if that is given.
void check_c_size(const char* what, const void* given, uint64_t size, size_t known, size_t least = 0);

}  // namespace tachy
