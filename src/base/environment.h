// A list of all environment variables on which a run may depend: those that this program reads, and those
// that change what libraries compute. Only env_string (base/env.h) reads the environment.
// tests/unit/base/environment_test.cpp fails if a variable is read but not listed, or listed but not read.
// docs/options.md states the same effect for each variable.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

namespace tachy {

enum class Effect {
  same_bits,  // no value of it changes a number in a result
  recorded,   // some values change numbers, so a run's settings record it
};

struct EnvironmentVariable {
  std::string_view name;
  Effect effect;
  // The field of the settings that shows its effect; if empty, its value is recorded in `environment`.
  std::string_view field = {};
  std::string_view reader = {};  // the library that reads it; if empty, this program does
};

std::span<const EnvironmentVariable> environment_variables();

using Environment = std::map<std::string, std::string>;  // values by name

// The recorded variables that are set now and that no field of the settings covers.
Environment recorded_environment();

// Returns, for example, "TACHY_ISA was avx2 and is not set now, TACHY_BF16 was not set and is portable now",
// or "" if the two agree.
std::string environment_difference(const Environment& then, const Environment& now);

}  // namespace tachy
