// Seeds on the command line: a number, or -1 for a random one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tachy::cli {

// Checks an option's text: returns "" or what is wrong.
std::string check_drawable_seed(const std::string& text);
// Returns nothing for a seed that is to be drawn. The text has been checked.
std::optional<uint64_t> seed_in(const std::string& text);
// The seed has at most 32 bits: every reader of JSON keeps it exact, and it is short in names.
uint64_t draw_seed();

}  // namespace tachy::cli
