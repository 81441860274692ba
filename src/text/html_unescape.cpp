// HTML character references. Both dialects follow HTML 5 for numbers: code points 0x80..0x9F mean
// Windows-1252, surrogates and numbers beyond Unicode become U+FFFD, and other control and non-characters are
// removed.
#include "text/html_unescape.h"

#include <algorithm>
#include <optional>

#include "text/html_entities.h"
#include "text/utf8.h"
#include "text/windows1252.h"

namespace tachy::text {
namespace {

constexpr size_t kMaxName = 32;        // Python's limit on a name, in characters
constexpr size_t kMaxStrictName = 24;  // ftfy's limit, after "&" and an optional "#"
constexpr char32_t kTooLarge = 0x110000;

bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
bool is_alpha(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
int hex_value(char32_t c) {
  if (is_digit(c)) return static_cast<int>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<int>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<int>(c - 'A') + 10;
  return -1;
}

std::optional<std::string_view> find(const HtmlEntity* table, size_t count, std::string_view name) {
  const HtmlEntity* end = table + count;
  const HtmlEntity* at =
      std::lower_bound(table, end, name, [](const HtmlEntity& e, std::string_view n) { return n > e.name; });
  if (at == end || at->name != name) return std::nullopt;
  return at->text;
}

std::optional<std::string_view> find_html5(std::string_view name) {
  return find(kHtml5Entities, kHtml5EntityCount, name);
}

void append_number(std::u32string& out, char32_t number) {
  if (number == 0) {
    out += U'\uFFFD';
  } else if (number == 0x0D) {
    out += U'\r';
  } else if (number >= 0x80 && number <= 0x9F) {
    out += windows1252_char(static_cast<unsigned char>(number));
  } else if ((number >= 0xD800 && number <= 0xDFFF) || number > 0x10FFFF) {
    out += U'\uFFFD';
  } else {
    const bool control = number < 0x20 && number != 0x09 && number != 0x0A && number != 0x0C;
    const bool noncharacter = (number >= 0xFDD0 && number <= 0xFDEF) || (number & 0xFFFE) == 0xFFFE;
    if (!control && number != 0x7F && !noncharacter) out += number;
  }
}

// Reads "#123" or "#x1F" at `at` (after "&"). Returns the end, or `at` if there are no digits.
size_t read_number(std::u32string_view text, size_t at, char32_t& number) {
  size_t i = at + 1;
  const bool hex = i < text.size() && (text[i] == 'x' || text[i] == 'X');
  if (hex) ++i;
  const size_t first = i;
  number = 0;
  for (; i < text.size(); ++i) {
    const int digit = hex_value(text[i]);
    if (digit < 0 || (!hex && digit > 9)) break;
    number = std::min<char32_t>(number * (hex ? 16 : 10) + static_cast<char32_t>(digit), kTooLarge);
  }
  return i == first ? at : i;
}

bool ends_name(char32_t c) {
  return c == '\t' || c == '\n' || c == '\f' || c == ' ' || c == '<' || c == '&' || c == '#' || c == ';';
}

}  // namespace

std::u32string html_unescape(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '&' || i + 1 == text.size()) {
      out += text[i++];
      continue;
    }
    if (text[i + 1] == '#') {
      char32_t number = 0;
      size_t end = read_number(text, i + 1, number);
      if (end == i + 1) {
        out += text[i++];
        continue;
      }
      append_number(out, number);
      i = end < text.size() && text[end] == ';' ? end + 1 : end;
      continue;
    }
    size_t end = i + 1;
    while (end < text.size() && end - i - 1 < kMaxName && !ends_name(text[end])) ++end;
    if (end == i + 1) {
      out += text[i++];
      continue;
    }
    if (end < text.size() && text[end] == ';') ++end;
    // Try the whole name first, then its longest known prefix of at least two characters.
    const std::u32string_view body = text.substr(i + 1, end - i - 1);
    auto known = find_html5(to_utf8(body));
    size_t used = body.size();
    while (!known && used > 2) {
      used -= 1;
      known = find_html5(to_utf8(body.substr(0, used)));
    }
    if (known) {
      out += to_utf32(*known);
      out += body.substr(used);
    } else {
      out += text.substr(i, end - i);
    }
    i = end;
  }
  return out;
}

std::u32string html_unescape_strict(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '&') {
      out += text[i++];
      continue;
    }
    const bool numeric = i + 1 < text.size() && text[i + 1] == '#';
    const size_t first = i + 1 + numeric;
    size_t end = first;
    while (end < text.size() && end - first < kMaxStrictName && (is_digit(text[end]) || is_alpha(text[end])))
      ++end;
    if (end == first || end == text.size() || text[end] != ';') {
      out += text[i++];
      continue;
    }
    const std::u32string_view whole = text.substr(i, end + 1 - i);
    i = end + 1;
    if (numeric) {
      char32_t number = 0;
      // "&#59;" is a semicolon, and ftfy takes a semicolon as a sign that the reference was not understood.
      if (read_number(whole, 1, number) + 1 == whole.size() && number != ';') {
        append_number(out, number);
      } else {
        out += whole;
      }
      continue;
    }
    const std::string name = to_utf8(whole.substr(1));
    auto known = find_html5(name);
    if (!known) known = find(kUpperCaseEntities, kUpperCaseEntityCount, name);
    if (known) {
      out += to_utf32(*known);
    } else {
      out += whole;
    }
  }
  return out;
}

}  // namespace tachy::text
