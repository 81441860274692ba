// A list of all environment variables that a run may depend on: those that this program reads, and those that
// change what libraries compute. env_string (base/env.h) is the only function that reads the environment.
// tests/unit/base/environment_test.cpp fails for a variable that is read but not listed, and for one that is
// listed but not read; docs/options.md gives the same effect for each.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

namespace tachy {

enum class Effect {
  same_bits,  // no value of it changes a number in a result
  recorded,   // some values do: the settings of a run record it
};

struct EnvironmentVariable {
  std::string_view name;
  Effect effect;
  // The field of the settings that shows its effect; empty: `environment` has its value.
  std::string_view field = {};
  std::string_view reader = {};  // the library that reads it; empty: this program
};

std::span<const EnvironmentVariable> environment_variables();

using Environment = std::map<std::string, std::string>;  // values by name

// The recorded variables that are set now and that no field of the settings covers.
Environment recorded_environment();

// "TACHY_ISA was avx2 and is not set now, TACHY_BF16 was not set and is portable now"; empty if the two
// agree.
std::string environment_difference(const Environment& then, const Environment& now);

}  // namespace tachy
