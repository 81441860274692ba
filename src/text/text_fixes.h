// ftfy's fix_text without its encoding repair (ftfy 6.3.1 with its default configuration, but fix_encoding
// off).
#pragma once

#include <string>
#include <string_view>

namespace tachy::text {

// Fixes each line until nothing changes any more. HTML references are undone only before the first line with
// a '<'. Sets `mojibake` if a line looks like UTF-8 that was read as Windows-1252 or Latin-1.
std::u32string fix_text(std::u32string_view text, bool& mojibake);

// Says whether a text looks like UTF-8 that was decoded as Windows-1252 or Latin-1. Such a text has
// characters that map back to the bytes of a three- or four-byte sequence, of two two-byte sequences in a
// row, or of one that begins with A-circumflex or A-tilde (by far the most frequent).
bool looks_like_mojibake(std::u32string_view text);

}  // namespace tachy::text
