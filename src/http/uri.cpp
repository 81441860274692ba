#include "http/uri.h"

#include <algorithm>

#include "base/utf8.h"

namespace tachy::http {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  if (out.find('\0') != out.npos || find_invalid_utf8(out) != kValidUtf8) return std::nullopt;
  return out;
}

std::optional<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view query,
                                                                            size_t most) {
  std::vector<std::pair<std::string, std::string>> out;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    if (pair.empty()) continue;
    const size_t equals = std::min(pair.find('='), pair.size());
    auto name = percent_decode(pair.substr(0, equals), true);
    auto value = percent_decode(pair.substr(std::min(pair.size(), equals + 1)), true);
    if (!name || !value || out.size() >= most) return std::nullopt;
    out.emplace_back(std::move(*name), std::move(*value));
  }
  return out;
}

std::optional<std::vector<std::string>> path_parts(std::string_view path) {
  if (path.empty() || path.front() != '/') return std::nullopt;
  std::vector<std::string> parts;
  for (size_t at = 1; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    auto part = percent_decode(path.substr(at, end - at));
    if (!part || *part == "." || *part == "..") return std::nullopt;
    for (const char c : *part)
      if (c == '/' || c == '\x7f' || static_cast<unsigned char>(c) < 0x20) return std::nullopt;
    parts.push_back(std::move(*part));
    at = end + 1;
  }
  return parts;
}

}  // namespace tachy::http
