// Tells a full disk from other errors. By the time that an error reaches whoever must decide, only its text is left.
#pragma once

#include <string_view>

namespace tachy {

// Says whether the message of an error names a full disk, or a file that may not grow.
bool says_full(std::string_view message);

}  // namespace tachy
