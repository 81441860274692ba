// The folder in which measured choices of algorithms are kept (cuda/vendor/algorithm_cache.h), and its contents.
// Later runs use these choices whether or not they measure, and another algorithm adds up in another order.
// So the settings of a run on a GPU record which choices there were.
#pragma once

#include <string>

namespace tachy::cuda {

// $XDG_CACHE_HOME/tachyscope or ~/.cache/tachyscope; empty if neither is known.
std::string kept_choices_folder();
// A fingerprint of all its choices; empty if there are none.
std::string kept_choices();

}  // namespace tachy::cuda
