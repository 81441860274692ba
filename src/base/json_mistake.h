// Tells a person what is wrong with a JSON text that they wrote, and what to change. It also measures how
// deeply a text is nested before it is parsed, since a file full of brackets would take far more memory than
// its size.
#pragma once

#include <string>
#include <string_view>

namespace tachy {

inline constexpr int kMostJsonNesting = 64;
int json_nesting(std::string_view text);

// `byte` is the last byte that nlohmann's parser read, counted from 0, and `words` is its message. Returns,
// for example, "a comma stands before this closing bracket, and nothing follows it".
std::string json_mistake(std::string_view text, size_t byte, std::string_view words);
// Returns the parser's message without the parser's own names for errors and places.
std::string_view json_words(std::string_view words);

}  // namespace tachy
