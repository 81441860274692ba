// The names of all ops and of their implementations, and what `without` may name: an optimisation (tensor/without.h), a group
// of them, or one implementation as op:implementation.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tensor/without.h"

namespace tachy::ops {

struct OpImplementations {
  std::string op;
  std::vector<std::string> names;  // best first; "ref" is the definition
};
const std::vector<OpImplementations>& all_implementations();

// Each entry is a name or several, separated by commas; "nothing" stands for none. Throws invalid_argument, naming `without`
// and what exists, for another name and for a definition, which is what is left when everything else is switched off.
Without parse_without(std::span<const std::string> names);
// The same names, one an entry, each once.
std::vector<std::string> without_names(std::span<const std::string> names);

}  // namespace tachy::ops
