// The names of all ops and of their implementations, and the names that `without` accepts: an optimisation
// (tensor/without.h), a group of them, or one implementation as op:implementation.
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
const std::vector<OpImplementations>& all_implementations();  // but for those of backward_ops()
const std::vector<std::string>& backward_ops();               // the names of the ops that compute gradients

// Each entry is one name or several, separated by commas; "nothing" stands for none. For another name, and
// for a definition (which is what remains when everything else is switched off), it throws
// `invalid_argument`, naming `without` and the existing names.
Without parse_without(std::span<const std::string> names);
// The same names, one per entry, without repetitions.
std::vector<std::string> without_names(std::span<const std::string> names);

}  // namespace tachy::ops
