// Makes names from files safe for messages: control bytes are escaped and long names are cut.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace tachy {

inline std::string printable(std::string_view name, size_t limit = 160) {
  std::string out;
  for (const char c : name.substr(0, limit)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return name.size() > limit ? out + "…" : out;
}

inline std::string in_quotes(std::string_view name, size_t limit = 160) {
  return '"' + printable(name, limit) + '"';
}

}  // namespace tachy
