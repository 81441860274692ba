// The parts of a request's target: its path and query, with their percent signs decoded.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tachy::http {

// Replaces each %XX by its byte. Returns nothing for a percent sign without two digits behind it, and for
// what is then no UTF-8 or has a zero byte. In a query a plus sign stands for a space.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space = false);

// Splits "a=b&c" into pairs, decoded. Returns nothing where one of them cannot be decoded, and for more than
// `most` pairs.
std::optional<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view query,
                                                                            size_t most = 256);

// Decodes the parts of a path between its slashes. Returns nothing if the path does not begin with a slash,
// or one of its parts cannot be decoded, is "." or "..", or has a slash or a control character once it is
// decoded.
std::optional<std::vector<std::string>> path_parts(std::string_view path);

}  // namespace tachy::http
