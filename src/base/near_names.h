// Suggests names that may have been meant by one that does not exist.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tachy {

// Returns at most `count` of them, ordered by the number of letters to insert, remove or change
// (Levenshtein), then by their order in `names`. Returns nothing for a name of more than 256 bytes.
std::vector<std::string> near_names(std::string_view name, const std::vector<std::string>& names,
                                    size_t count = 4);

}  // namespace tachy
