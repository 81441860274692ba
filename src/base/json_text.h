// JSON that people write: settings, scripts of actions. The text is that of read_text_file().
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tachy {

// Told each key in the order of the text, which a parsed object does not keep. Keys of the top object have depth 1.
using JsonKeys = std::function<void(int depth, const std::string& key)>;

// Throws corrupt: "NAME: line 3, column 5 (byte 40): a comma stands before this closing bracket, …".
nlohmann::json parse_json_text(std::string_view text, std::string_view name, const JsonKeys& keys = {});

// JSON of our own making, or another program's; throws what nlohmann::json::parse() throws.
nlohmann::json parse_json_line(std::string_view text);
// The same, but a text that is no JSON gives a discarded value (is_discarded()).
nlohmann::json parsed_or_discarded(std::string_view text, const JsonKeys& keys = {});

// On one line, and with `indent` spaces a level. GCC would compile dump() once more in each file that calls it. For people and programs
// alone: bytes that are no UTF-8 become U+FFFD; what names tensors or files is written by dump(), which throws.
std::string json_line(const nlohmann::json& value);
std::string json_text(const nlohmann::json& value, int indent);

}  // namespace tachy
