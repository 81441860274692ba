// Reads JSON that a stranger sent, more strictly than base/json_text.h: a key twice in one object, NUL in a text, and
// deep nesting are errors, since the next program would read them in another way.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tachy::web_api {

// Throws ApiError (invalid_value) with `param`, and `what` in the message: "the body".
nlohmann::json parse_strict_json(std::string_view text, const std::string& what,
                                 const std::string& param = "");

}  // namespace tachy::web_api
