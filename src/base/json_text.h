// Reads JSON that people write, such as settings and scripts of actions. read_text_file() supplies the text.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tachy {

// Called with each key in the order of the text, which a parsed object does not keep. Keys of the outermost
// object have depth 1.
using JsonKeys = std::function<void(int depth, const std::string& key)>;

// Throws corrupt with a message such as "NAME: line 3, column 5 (byte 40): a comma stands before …".
nlohmann::json parse_json_text(std::string_view text, std::string_view name, const JsonKeys& keys = {});

// Parses JSON that this or another program wrote; throws what nlohmann::json::parse() throws.
nlohmann::json parse_json_line(std::string_view text);
// Parses such a text, but returns a discarded value (is_discarded()) if it is not JSON.
nlohmann::json parsed_or_discarded(std::string_view text, const JsonKeys& keys = {});

// Return JSON as text, on one line or with `indent` spaces per level. (If callers used dump(), GCC would
// compile it again in each file.) Bytes that are not UTF-8 become U+FFFD, so names of tensors or files are
// written by dump() itself, which throws.
std::string json_line(const nlohmann::json& value);
std::string json_text(const nlohmann::json& value, int indent);

}  // namespace tachy
