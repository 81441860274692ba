// Bytes as text (RFC 4648): base64 with its padding, as data URLs and signatures have it, and base64url
// without, as keys and tokens in addresses have it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tachy {

std::string to_base64(std::string_view bytes);     // with + and /, padded by =
std::string to_base64url(std::string_view bytes);  // with - and _, not padded

// Return nothing for a text that the functions above would not write: other characters, spaces, missing or
// needless padding, bits after the last byte that are not 0.
std::optional<std::string> from_base64(std::string_view text);
std::optional<std::string> from_base64url(std::string_view text);

}  // namespace tachy
