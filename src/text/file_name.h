// Makes file names from a text in any script.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tachy::text {

// Turns "A red ball, rolling!" into "a-red-ball-rolling" and "Красный мяч" into "красный-мяч". Letters and
// digits of every script are kept with their accents and vowel signs, and so are emoji, all in NFC and lower
// case. Any run of other characters becomes a dash, except at the ends. Invisible characters (joiners, text
// directions, fillers) are left out. The name has at most max_bytes and is cut between characters as people
// see them (grapheme clusters). It is empty if nothing is left, or if the bytes are not UTF-8.
std::string file_name_of(std::string_view text, size_t max_bytes);

}  // namespace tachy::text
