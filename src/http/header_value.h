// A header's value with parameters, as Content-Type and Content-Disposition have it:
// `multipart/form-data; boundary="x"`.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace tachy::http {

struct HeaderValue {
  std::string value;  // what stands before the first semicolon, in small letters
  Pairs parameters;   // their names in small letters, their values without quotes

  const std::string* parameter(std::string_view name) const;  // null if there is none
};

// Returns nothing for a text of another form, and where a parameter is there twice. In quotes a backslash
// protects a quote or a backslash only, because some senders put paths with backslashes there.
std::optional<HeaderValue> parse_header_value(std::string_view text);

}  // namespace tachy::http
