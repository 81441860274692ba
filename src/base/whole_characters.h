// Cuts UTF-8 between characters, because some file systems reject names that end in half a character.
#pragma once

#include <cstddef>
#include <string_view>

namespace tachy {

// Returns the beginning of a text, at most max_bytes long, without half a character at its end.
inline std::string_view whole_characters(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  while (max_bytes > 0 && (static_cast<unsigned char>(text[max_bytes]) & 0xC0) == 0x80) --max_bytes;
  return text.substr(0, max_bytes);
}

}  // namespace tachy
