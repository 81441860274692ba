#include "web_api/fields/json_body.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/json_mistake.h"
#include "base/json_text.h"
#include "base/utf8.h"
#include "web_api/api_error.h"
#include "web_api/fields/values.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

constexpr int kMostNesting = 16;

// Looks at the keys and texts as they are read.
class Watch {
 public:
  bool operator()(int, json::parse_event_t event, json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
        keys_.emplace_back();
        break;
      case json::parse_event_t::object_end:
        keys_.pop_back();
        break;
      case json::parse_event_t::key:
        look(parsed);
        if (!keys_.back().insert(parsed.get_ref<const std::string&>()).second && twice.empty())
          twice = parsed.get_ref<const std::string&>(), repeated = true;
        break;
      case json::parse_event_t::value:
        look(parsed);
        break;
      default:
        break;
    }
    return true;
  }

  std::string twice;
  bool repeated = false, nul = false;

 private:
  void look(const json& parsed) {
    if (parsed.is_string() && parsed.get_ref<const std::string&>().find('\0') != std::string::npos)
      nul = true;
  }

  std::vector<std::set<std::string>> keys_;  // of the objects around this place
};

}  // namespace

json parse_strict_json(std::string_view text, const std::string& what, const std::string& param) {
  if (const size_t byte = find_invalid_utf8(text); byte != kValidUtf8)
    throw ApiError("invalid_value", fmt::format("{} is not UTF-8: byte {}", what, byte), param);
  if (json_nesting(text) > kMostNesting)
    throw ApiError("invalid_value", fmt::format("{} is nested deeper than {} levels", what, kMostNesting),
                   param);
  Watch watch;
  json out;
  try {
    out = json::parse(text, std::ref(watch));
  } catch (const json::parse_error& e) {
    const size_t byte = e.byte > 0 ? e.byte - 1 : 0;
    throw ApiError("invalid_value",
                   fmt::format("{} is not JSON: byte {}: {}", what, byte, json_mistake(text, byte, e.what())),
                   param);
  } catch (const json::exception& e) {
    throw ApiError("invalid_value", fmt::format("{} is not JSON: {}", what, json_words(e.what())), param);
  }
  if (watch.repeated)
    throw ApiError("invalid_value", fmt::format("{} has `{}` twice", what, shown(watch.twice)),
                   param.empty() ? shown(watch.twice) : param);
  if (watch.nul) throw ApiError("invalid_value", fmt::format("{} has a NUL in a text", what), param);
  return out;
}

}  // namespace tachy::web_api
