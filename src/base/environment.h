// The variables of the environment that a run may depend on, as one list: those that this program reads, and those by which
// libraries compute otherwise. env_string (base/env.h) is the only function that reads the environment. A variable that is
// read and not listed fails tests/unit/base/environment_test.cpp, as does one that is listed and not read; docs/options.md says
// the same of each.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

namespace tachy {

enum class Effect {
  same_bits,  // no value of it changes a number of a result
  recorded,   // some value of it does: the settings of a run say what it was
};

struct EnvironmentVariable {
  std::string_view name;
  Effect effect;
  std::string_view field =
      {};  // of the settings, which says what it came to; empty: `environment` has its value
  std::string_view reader = {};  // a library; empty: this program
};

std::span<const EnvironmentVariable> environment_variables();

using Environment = std::map<std::string, std::string>;  // values by name

// The recorded variables that are set now and that no field of the settings speaks for.
Environment recorded_environment();

// "TACHY_ISA was avx2 and is not set now, TACHY_BF16 was not set and is portable now"; empty where the two agree.
std::string environment_difference(const Environment& then, const Environment& now);

}  // namespace tachy
