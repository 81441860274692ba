// UTF-8 and Unicode properties. We decode and validate ourselves, because error texts need offsets
// (base/utf8.h); utf8proc does normalization, categories and case.
#include "text/utf8.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "base/error.h"

namespace tachy::text {

void require_utf8(std::string_view bytes, std::string_view what) {
  const size_t bad = find_invalid_utf8(bytes);
  if (bad == kValid) return;
  require(false, "{}: expected UTF-8, got an invalid sequence at byte {} (0x{:02X})", what, bad,
          static_cast<unsigned>(static_cast<unsigned char>(bytes[bad])));
}

char32_t next_char(std::string_view valid, size_t& at) {
  const auto* p = reinterpret_cast<const unsigned char*>(valid.data()) + at;
  const size_t length = char_length(*p);
  at += length;
  switch (length) {
    case 1:
      return p[0];
    case 2:
      return (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu);
    case 3:
      return (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    default:
      return (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
  }
}

std::u32string to_utf32(std::string_view valid) {
  std::u32string out;
  out.reserve(valid.size());
  for (size_t at = 0; at < valid.size();) out += next_char(valid, at);
  return out;
}

std::string to_utf8(std::u32string_view chars) {
  std::string out;
  out.reserve(chars.size());
  for (char32_t c : chars) append_utf8(out, c);
  return out;
}

bool is_white_space(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || c == 0x20;
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_python_space(char32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

bool is_decimal_digit(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_ND;
}

bool is_mark(char32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
         category == UTF8PROC_CATEGORY_ME;
}

bool is_word_char(char32_t c) {
  if (c == 0x200C || c == 0x200D) return true;  // the property Join_Control
  // Circled and squared Latin letters are alphabetic symbols, but in no category of letters.
  if ((c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
      (c >= 0x1F170 && c <= 0x1F189))
    return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

namespace {

std::string map_all(std::string_view valid, int options) {
  if (valid.empty()) return {};
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(valid.data()),
                                             static_cast<utf8proc_ssize_t>(valid.size()), &mapped,
                                             static_cast<utf8proc_option_t>(options));
  std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(mapped, &std::free);
  check(size >= 0, size == UTF8PROC_ERROR_NOMEM ? ErrorCode::out_of_memory : ErrorCode::invalid_argument,
        "text: Unicode normalization failed: {}", utf8proc_errmsg(size));
  return {reinterpret_cast<const char*>(mapped), static_cast<size_t>(size)};
}

}  // namespace

std::string normalize(std::string_view valid, Form form) {
  const bool composes = form == Form::nfc || form == Form::nfkc;
  int options = UTF8PROC_STABLE | (composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE);
  if (form == Form::nfkc || form == Form::nfkd) options |= UTF8PROC_COMPAT;
  if (!composes) return map_all(valid, options);
  // utf8proc (2.8) takes the vowel U+11A7 for the first of the final consonants, which begin after it, and joins it to a
  // syllable, where it vanishes. It neither composes nor decomposes, so what lies before and after it is mapped by itself.
  constexpr std::string_view kVowel = "\xE1\x86\xA7";
  std::string out;
  for (size_t at = 0;;) {
    const size_t vowel = valid.find(kVowel, at);
    out += map_all(valid.substr(at, vowel - at), options);
    if (vowel == std::string_view::npos) return out;
    out += kVowel;
    at = vowel + kVowel.size();
  }
}

std::string lowercase(std::string_view valid) {
  std::string out;
  out.reserve(valid.size());
  for (size_t at = 0; at < valid.size();) {
    const char32_t c = next_char(valid, at);
    // The only character whose lower case is two characters.
    if (c == 0x130) {
      out += "i\xCC\x87";
    } else {
      append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
    }
  }
  return out;
}

}  // namespace tachy::text
