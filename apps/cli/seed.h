// Seeds of the command line: a number, or -1 for one that is drawn.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tachy::cli {

// A check of an option's text: "" or what is wrong.
std::string check_drawable_seed(const std::string& text);
// Nothing: it is to be drawn. The text has been checked.
std::optional<uint64_t> seed_in(const std::string& text);
// At most 32 bits: exact in every reader of JSON, and short in names.
uint64_t draw_seed();

}  // namespace tachy::cli
