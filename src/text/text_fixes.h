// ftfy's fix_text without its encoding repair (the default configuration of ftfy 6.3.1, with fix_encoding
// off).
#pragma once

#include <string>
#include <string_view>

namespace tachy::text {

// Works line by line, each until nothing changes any more. HTML references are undone only in text before the
// first line that holds '<'. `mojibake` is set when a line looks like UTF-8 read as Windows-1252 or Latin-1.
std::u32string fix_text(std::u32string_view text, bool& mojibake);

// Says whether a text looks like UTF-8 that was decoded as Windows-1252 or Latin-1: it holds characters that
// map back to the bytes of a three- or four-byte sequence, of two two-byte sequences in a row, or of one that
// begins with A-circumflex or A-tilde (by far the most frequent).
bool looks_like_mojibake(std::u32string_view text);

}  // namespace tachy::text
