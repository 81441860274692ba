// Names of files made of a text in any script.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tachy::text {

// "A red ball, rolling!" → "a-red-ball-rolling", "Красный мяч" → "красный-мяч". Letters, digits and what belongs to them
// (accents, vowel signs) are kept in every script, and emoji, all in NFC and lower case; whatever else there is becomes one dash, and
// none at the ends. Characters without a shape of their own (joiners, directions of text, fillers) are left out. At most max_bytes,
// cut between characters as people see them (grapheme clusters). Empty where nothing is left, and for bytes that are no UTF-8.
std::string file_name_of(std::string_view text, size_t max_bytes);

}  // namespace tachy::text
