// How a long command says what it does now, and stops where it is asked to.
#pragma once

#include <string>

#include "base/error.h"

namespace tachy {

// Options: with `progress`, a function of a text, and `cancel`, a flag or null.
template <class Options>
void say(const Options& options, const std::string& text) {
  if (options.progress) options.progress(text);
  if (options.cancel && options.cancel->load()) fail(ErrorCode::cancelled, "cancelled");
}

}  // namespace tachy
