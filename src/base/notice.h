// A line on stderr that is no warning, such as which GPU a run takes. Once for each text; --quiet drops it.
#pragma once

#include <string_view>

namespace tachy {

void say_line(std::string_view text);

}  // namespace tachy
