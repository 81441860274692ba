// Lets a long command report what it is doing, and stop when it is asked to.
#pragma once

#include <string>

#include "base/error.h"

namespace tachy {

// `Options` has `progress`, a function that takes a text, and `cancel`, a flag or null.
template <class Options>
void say(const Options& options, const std::string& text) {
  if (options.progress) options.progress(text);
  if (options.cancel && options.cancel->load()) fail(ErrorCode::cancelled, "cancelled");
}

}  // namespace tachy
