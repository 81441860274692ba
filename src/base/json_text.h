// JSON that people write: settings, scripts of actions. The text comes from read_text_file().
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tachy {

// Is told each key in the order of the text, which a parsed object does not keep. Keys of the top object have
// depth 1.
using JsonKeys = std::function<void(int depth, const std::string& key)>;

// Throws corrupt: "NAME: line 3, column 5 (byte 40): a comma stands before this closing bracket, …".
nlohmann::json parse_json_text(std::string_view text, std::string_view name, const JsonKeys& keys = {});

// Parses JSON that we or other programs made; throws what nlohmann::json::parse() throws.
nlohmann::json parse_json_line(std::string_view text);
// Does the same, but gives a discarded value (is_discarded()) for a text that is not JSON.
nlohmann::json parsed_or_discarded(std::string_view text, const JsonKeys& keys = {});

// Write JSON on one line, or with `indent` spaces per level. (GCC would compile dump() again in each file
// that calls it.) This is for people and programs only: bytes that are not UTF-8 become U+FFFD. Names of
// tensors or files are written by dump(), which throws.
std::string json_line(const nlohmann::json& value);
std::string json_text(const nlohmann::json& value, int indent);

}  // namespace tachy
