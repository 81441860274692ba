// Turns HTML character references into characters, in two dialects: Python's html.unescape (HTML 5's rules:
// semicolons are optional where the standard says so, and the longest known prefix of a name counts) and
// ftfy's stricter one.
#pragma once

#include <string>
#include <string_view>

namespace tachy::text {

// Gives the same results as Python 3.11's html.unescape.
std::u32string html_unescape(std::u32string_view text);

// Does what ftfy does: it only takes references of up to 24 letters and digits that end in a semicolon,
// including upper-case spellings of lower-case names, and only if it understands all of the reference.
std::u32string html_unescape_strict(std::u32string_view text);

}  // namespace tachy::text
