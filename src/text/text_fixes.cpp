// The fixes in ftfy's order: HTML references, C1 controls as Windows-1252, Latin ligatures, character width,
// curly quotes, line breaks, terminal escapes, control characters, NFC. They are repeated until the text is
// stable. (ftfy's surrogate repair is not needed, because valid UTF-8 contains no surrogates.)
#include "text/text_fixes.h"

#include <array>

#include "text/html_unescape.h"
#include "text/utf8.h"
#include "text/windows1252.h"

namespace tachy::text {
namespace {

constexpr size_t kMaxSegment = 1000000;  // ftfy's max_decode_length, in code points
constexpr char32_t kFirstWide = 0xFF01, kLastWide = 0xFFEF;

std::u32string_view ligature(char32_t c) {
  switch (c) {
    case 0x0132:
      return U"IJ";
    case 0x0133:
      return U"ij";
    case 0x0149:
      return U"\u02BCn";
    case 0x01F1:
      return U"DZ";
    case 0x01F2:
      return U"Dz";
    case 0x01F3:
      return U"dz";
    case 0x01C4:
      return U"D\u017D";
    case 0x01C5:
      return U"D\u017E";
    case 0x01C6:
      return U"d\u017E";
    case 0x01C7:
      return U"LJ";
    case 0x01C8:
      return U"Lj";
    case 0x01C9:
      return U"lj";
    case 0x01CA:
      return U"NJ";
    case 0x01CB:
      return U"Nj";
    case 0x01CC:
      return U"nj";
    case 0xFB00:
      return U"ff";
    case 0xFB01:
      return U"fi";
    case 0xFB02:
      return U"fl";
    case 0xFB03:
      return U"ffi";
    case 0xFB04:
      return U"ffl";
    case 0xFB05:
      return U"\u017Ft";
    case 0xFB06:
      return U"st";
    default:
      return {};
  }
}

// Maps half- and full-width forms to their usual width. The compatibility decomposition of each is made once.
const std::u32string& usual_width(char32_t c) {
  static const auto table = [] {
    std::array<std::u32string, kLastWide - kFirstWide + 1> t;
    for (char32_t wide = kFirstWide; wide <= kLastWide; ++wide)
      t[wide - kFirstWide] = to_utf32(normalize(to_utf8(std::u32string(1, wide)), Form::nfkc));
    return t;
  }();
  return table[c - kFirstWide];
}

// Steps that look at one character at a time can be combined into one pass, because no step's output is a
// later step's input, except for the quotes: U+0149 becomes U+02BC, which uncurling turns into an apostrophe.
std::u32string fix_characters(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  auto put = [&](char32_t c) {
    if ((c >= 0x2018 && c <= 0x201B) || c == 0x02BC) {
      out += U'\'';
    } else if (c >= 0x201C && c <= 0x201F) {
      out += U'"';
    } else {
      out += c;
    }
  };
  for (char32_t c : text) {
    if (c >= 0x80 && c <= 0x9F) {
      put(windows1252_char(static_cast<unsigned char>(c)));
    } else if (auto parts = ligature(c); !parts.empty()) {
      for (char32_t part : parts) put(part);
    } else if (c == 0x3000) {
      out += U' ';
    } else if (c >= kFirstWide && c <= kLastWide) {
      out += usual_width(c);
    } else {
      put(c);
    }
  }
  return out;
}

std::u32string fix_line_breaks(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const char32_t c = text[i];
    if (c == '\r') {
      out += U'\n';
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
    } else {
      out += c == 0x2028 || c == 0x2029 || c == 0x85 ? U'\n' : c;
    }
  }
  return out;
}

// Removes terminal escapes: ESC [, digits and semicolons, and a letter.
std::u32string remove_terminal_escapes(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    if (text[i] == 0x1B && i + 1 < text.size() && text[i + 1] == '[') {
      size_t end = i + 2;
      while (end < text.size() && (text[end] == ';' || is_decimal_digit(text[end]))) ++end;
      if (end < text.size() && ((text[end] | 0x20) >= 'a' && (text[end] | 0x20) <= 'z')) {
        i = end + 1;
        continue;
      }
    }
    out += text[i++];
  }
  return out;
}

bool is_removed_control(char32_t c) {
  return c <= 0x08 || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || (c >= 0x206A && c <= 0x206F) ||
         c == 0xFEFF || (c >= 0xFFF9 && c <= 0xFFFC);
}

std::u32string fix_segment(std::u32string text, bool unescape, bool& mojibake) {
  for (bool first = true;; first = false) {
    std::u32string fixed = unescape ? html_unescape_strict(text) : text;
    if (first && looks_like_mojibake(fixed)) mojibake = true;
    fixed = remove_terminal_escapes(fix_line_breaks(fix_characters(fixed)));
    std::erase_if(fixed, is_removed_control);
    fixed = to_utf32(normalize(to_utf8(fixed), Form::nfc));
    if (fixed == text) return fixed;
    text = std::move(fixed);
  }
}

}  // namespace

bool looks_like_mojibake(std::u32string_view text) {
  size_t pair_end = 0;  // where the last two-byte sequence ended
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] < 0xC2) continue;
    const int lead = windows1252_byte(text[i]);
    const int length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    if (length == 0 || i + static_cast<size_t>(length) > text.size()) continue;
    bool whole = true;
    for (int k = 1; k < length && whole; ++k) {
      const int byte = windows1252_byte(text[i + static_cast<size_t>(k)]);
      whole = byte >= 0x80 && byte <= 0xBF;
    }
    if (!whole) continue;
    if (length > 2 || lead == 0xC2 || lead == 0xC3 || (pair_end == i && i > 0)) return true;
    pair_end = i + 2;
    ++i;
  }
  return false;
}

std::u32string fix_text(std::u32string_view text, bool& mojibake) {
  std::u32string out;
  out.reserve(text.size());
  bool unescape = true;
  for (size_t at = 0; at < text.size();) {
    const size_t newline = text.find(U'\n', at);
    size_t end = newline == text.npos ? text.size() : newline + 1;
    if (end - at > kMaxSegment) end = at + kMaxSegment;
    const std::u32string_view segment = text.substr(at, end - at);
    if (segment.find(U'<') != segment.npos) unescape = false;
    out += fix_segment(std::u32string(segment), unescape, mojibake);
    at = end;
  }
  return out;
}

}  // namespace tachy::text
