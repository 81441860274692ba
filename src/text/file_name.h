// Makes names of files from a text in any script.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tachy::text {

// "A red ball, rolling!" → "a-red-ball-rolling", "Красный мяч" → "красный-мяч". Letters and digits of every
// script are kept, with everything that belongs to them (accents, vowel signs), and so are emoji, all in NFC
// and lower case. Any run of other characters becomes one dash, but not at the ends. Characters without a
// shape of their own (joiners, text directions, fillers) are left out. The name has at most max_bytes and is
// cut between characters as people see them (grapheme clusters). It is empty if nothing is left, and for
// bytes that are not UTF-8.
std::string file_name_of(std::string_view text, size_t max_bytes);

}  // namespace tachy::text
