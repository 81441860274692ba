// Checks whether bytes are UTF-8, and writes characters as UTF-8. text/utf8.h has the functions that need
// Unicode's tables.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tachy {

inline constexpr size_t kValidUtf8 = static_cast<size_t>(-1);

// Returns the offset of the first byte that is not part of valid UTF-8 (shortest form, no surrogates), or
// kValidUtf8.
size_t find_invalid_utf8(std::string_view bytes);

void append_utf8(std::string& out, char32_t c);

}  // namespace tachy
