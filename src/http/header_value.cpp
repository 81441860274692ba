#include "http/header_value.h"

#include <algorithm>

namespace tachy::http {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string small_letters(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// Takes a value in quotes from the front of `rest`, or returns nothing if its end is missing.
std::optional<std::string> take_quoted(std::string_view& rest) {
  std::string out;
  for (size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] == '"') {
      rest.remove_prefix(i + 1);
      return out;
    }
    if (rest[i] == '\\' && i + 1 < rest.size() && (rest[i + 1] == '"' || rest[i + 1] == '\\')) ++i;
    out += rest[i];
  }
  return std::nullopt;
}

}  // namespace

const std::string* HeaderValue::parameter(std::string_view name) const {
  for (const auto& [key, text] : parameters)
    if (key == name) return &text;
  return nullptr;
}

std::optional<HeaderValue> parse_header_value(std::string_view text) {
  HeaderValue out;
  const size_t first = std::min(text.find(';'), text.size());
  out.value = small_letters(without_blanks(text.substr(0, first)));
  if (out.value.empty()) return std::nullopt;
  std::string_view rest = text.substr(first);
  while (!rest.empty()) {
    if (rest.front() != ';') return std::nullopt;
    rest = without_blanks(rest.substr(1));
    if (rest.empty()) break;  // a semicolon at the end is common
    const size_t equals = rest.find_first_of("=;\"");
    if (equals == rest.npos || rest[equals] != '=') return std::nullopt;
    std::string name = small_letters(without_blanks(rest.substr(0, equals)));
    rest = without_blanks(rest.substr(equals + 1));
    std::string value;
    if (rest.starts_with('"')) {
      auto quoted = take_quoted(rest);
      if (!quoted) return std::nullopt;
      value = std::move(*quoted);
      rest = without_blanks(rest);
    } else {
      const size_t end = std::min(rest.find(';'), rest.size());
      value = without_blanks(rest.substr(0, end));
      rest.remove_prefix(end);
    }
    if (name.empty() || out.parameter(name)) return std::nullopt;
    out.parameters.emplace_back(std::move(name), std::move(value));
  }
  return out;
}

}  // namespace tachy::http
