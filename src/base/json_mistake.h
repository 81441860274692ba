// Tells what is wrong with a JSON text that a person wrote, in words that say what to change. Also measures
// how deeply a text is nested before it is parsed: the tree for a file of brackets would take far more memory
// than the file.
#pragma once

#include <string>
#include <string_view>

namespace tachy {

inline constexpr int kMostJsonNesting = 64;
int json_nesting(std::string_view text);

// `byte`: the last byte that nlohmann's parser read, counted from 0; `words`: its message. The result is, for
// example, "a comma stands before this closing bracket, and nothing follows it".
std::string json_mistake(std::string_view text, size_t byte, std::string_view words);
// The parser's words, without its own names for errors and places.
std::string_view json_words(std::string_view words);

}  // namespace tachy
