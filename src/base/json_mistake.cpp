#include "base/json_mistake.h"

#include <fmt/format.h>

#include <algorithm>

namespace tachy {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";

bool is_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '-'; }

// Returns the word of letters that contains this byte.
std::string_view word_at(std::string_view text, size_t at) {
  size_t begin = at, end = at;
  while (begin > 0 && is_letter(text[begin - 1])) --begin;
  while (end < text.size() && is_letter(text[end])) ++end;
  return text.substr(begin, std::min<size_t>(end - begin, 20));
}

char last_before(std::string_view text, size_t at) {
  const size_t found = text.substr(0, at).find_last_not_of(kSpaces);
  return found == std::string_view::npos ? '\0' : text[found];
}

// Returns what the parser's message says it expected, or nothing.
std::string_view expected_of(std::string_view words) {
  constexpr std::string_view kBefore = "; expected ";
  const size_t at = words.rfind(kBefore);
  return at == std::string_view::npos ? std::string_view() : words.substr(at + kBefore.size());
}

// Describes a mistake inside a text in quotes.
std::string in_text(std::string_view core, char c) {
  if (c == '\n' || core.find("missing closing quote") != std::string_view::npos)
    return "a text has no closing quote on its line; write a line break inside a text as \\n";
  if (core.find("backslash") != std::string_view::npos)
    return "write a backslash inside a text as two (\\\\)";
  if (c == '\t') return "write a tab inside a text as \\t";
  return std::string(core);
}

// Describes a character or word that cannot begin a value.
std::string of_literal(std::string_view text, size_t at) {
  if (is_letter(text[at]))
    return fmt::format("'{}' is not a value: JSON has numbers, texts in double quotes, true, false and null",
                       word_at(text, at));
  if (const auto byte = static_cast<unsigned char>(text[at]); byte < 0x20 || byte == 0x7F)
    return fmt::format("there is a control character (0x{:02X}) here", byte);
  size_t end = at + 1;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  return fmt::format("no value begins with '{}'", text.substr(at, end - at));
}

}  // namespace

std::string_view json_words(std::string_view words) {
  const auto drop_to = [&](std::string_view end) {
    if (const size_t at = words.find(end); at != std::string_view::npos) words.remove_prefix(at + end.size());
  };
  drop_to("] ");
  if (words.starts_with("parse error")) drop_to(": ");
  if (words.starts_with("syntax error")) drop_to(" - ");
  return words.substr(0, words.find("; last read:"));
}

int json_nesting(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

std::string json_mistake(std::string_view text, size_t at, std::string_view words) {
  const std::string_view core = json_words(words), expected = expected_of(words);
  if (text.find_first_not_of(kSpaces) == std::string_view::npos) return "it is empty";
  if (at >= text.size()) return "it ends too early: a bracket or a quote is not closed";
  const char c = text[at];
  if (core.starts_with("invalid string")) return in_text(core, c);
  if ((c == '}' || c == ']') && last_before(text, at) == ',')
    return "there is a comma before this closing bracket, and nothing follows it; remove the comma";
  if (c == '\'') return "write names and texts in double quotes, not in single ones";
  if (text.substr(at).starts_with("\xE2\x80")) return "write names and texts in plain double quotes (\")";
  if (c == '/' || c == '#') return "JSON has no comments";
  if (expected == "end of input") return "there is something after the end of the JSON";
  if (expected == "':'") return "expected ':' between a name and its value";
  if (expected == "'}'") return "expected ',' or '}' before this";
  if (expected == "']'") return "expected ',' or ']' before this";
  if (expected == "string literal") return "expected a name in double quotes";
  if (core.starts_with("invalid literal")) return of_literal(text, at);
  if (expected.starts_with("'['")) return "expected a value";
  return std::string(core);
}

}  // namespace tachy
