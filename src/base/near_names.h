// Suggests existing names for one that does not exist, in case of a misspelling.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tachy {

// Returns at most `count` of `names`. Those with the fewest letters to insert, remove or change (Levenshtein)
// come first, and equal ones keep their order. Returns nothing for a name of more than 256 bytes.
std::vector<std::string> near_names(std::string_view name, const std::vector<std::string>& names,
                                    size_t count = 4);

}  // namespace tachy
