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

}  // namespace tachy
