// Tells what is wrong with a JSON text that a person wrote, in words that say what to change; and how deep one is
// nested, which is measured before it is parsed: the tree of a file of brackets would cost far more than the file.
#pragma once

#include <string>
#include <string_view>

namespace tachy {

inline constexpr int kMostJsonNesting = 64;
int json_nesting(std::string_view text);

// `byte`: the last one that nlohmann's parser read, from 0; `words`: what it says of it. The result is such as
// "a comma stands before this closing bracket, and nothing follows it".
std::string json_mistake(std::string_view text, size_t byte, std::string_view words);
// Its words without its own names for errors and places.
std::string_view json_words(std::string_view words);

}  // namespace tachy
