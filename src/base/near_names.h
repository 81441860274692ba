// Names that may have been meant by one that there is not.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tachy {

// At most `count` of them, by how many letters must be put in, left out or changed (Levenshtein), those that come
// first before others. Nothing for a name of more than 256 bytes.
std::vector<std::string> near_names(std::string_view name, const std::vector<std::string>& names,
                                    size_t count = 4);

}  // namespace tachy
