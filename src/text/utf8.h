// Unicode helpers of this folder: UTF-8 conversions, white space (as Python and as Unicode define it),
// general categories, and normalization forms (through utf8proc).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace tachy::text {

using tachy::append_utf8;
using tachy::find_invalid_utf8;
inline constexpr size_t kValid = kValidUtf8;

// Throws Error{invalid_argument} with "what: invalid UTF-8 at byte N".
void require_utf8(std::string_view bytes, std::string_view what);

// Decodes the character at `at` of valid UTF-8 and moves `at` past it.
char32_t next_char(std::string_view valid, size_t& at);

// Returns a character's length in bytes, by its first byte (valid UTF-8).
inline size_t char_length(unsigned char lead) {
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

std::u32string to_utf32(std::string_view valid);
std::string to_utf8(std::u32string_view chars);

bool is_python_space(char32_t c);  // str.isspace() and re's \s: White_Space and U+001C..U+001F
bool is_white_space(char32_t c);   // the Unicode property White_Space
bool is_decimal_digit(char32_t c);
bool is_mark(char32_t c);       // categories Mn, Mc, Me
bool is_word_char(char32_t c);  // \w of a Unicode regular expression

enum class Form { nfc, nfd, nfkc, nfkd };
std::string normalize(std::string_view valid, Form form);
std::string lowercase(std::string_view valid);  // each character by itself, full mapping

}  // namespace tachy::text
