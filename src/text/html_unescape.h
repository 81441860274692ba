// HTML character references to characters, in two dialects: Python's html.unescape (HTML 5's rules:
// semicolons optional where the standard says so, longest known prefix of a name) and ftfy's stricter one.
#pragma once

#include <string>
#include <string_view>

namespace tachy::text {

// Equal to Python 3.11's html.unescape.
std::u32string html_unescape(std::u32string_view text);

// ftfy's step: only references of up to 24 letters and digits that end in a semicolon, upper-case spellings
// of lower-case names too; a reference is left alone unless it is understood whole.
std::u32string html_unescape_strict(std::u32string_view text);

}  // namespace tachy::text
