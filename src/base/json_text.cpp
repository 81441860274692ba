#include "base/json_text.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_mistake.h"
#include "base/text_file.h"

namespace tachy {
namespace {

nlohmann::json parse(std::string_view text, const JsonKeys& keys, bool throws = true) {
  using nlohmann::json;
  if (!keys) return json::parse(text, nullptr, throws);
  const auto tell = [&](int depth, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::key) keys(depth, parsed.get_ref<const std::string&>());
    return true;
  };
  return json::parse(text, tell, throws);
}

}  // namespace

nlohmann::json parse_json_text(std::string_view text, std::string_view name, const JsonKeys& keys) {
  check(json_nesting(text) <= kMostJsonNesting, ErrorCode::corrupt,
        "{}: JSON is nested deeper than {} levels", name, kMostJsonNesting);
  try {
    return parse(text, keys);
  } catch (const nlohmann::json::parse_error& e) {
    const size_t byte = e.byte > 0 ? e.byte - 1 : 0;
    const TextPlace place = place_in(text, byte);
    fail(ErrorCode::corrupt, "{}: line {}, column {} (byte {}): {}", name, place.line, place.column, byte,
         json_mistake(text, byte, e.what()));
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorCode::corrupt, "{}: {}", name, json_words(e.what()));
  }
}

nlohmann::json parse_json_line(std::string_view text) { return parse(text, {}); }

nlohmann::json parsed_or_discarded(std::string_view text, const JsonKeys& keys) {
  return parse(text, keys, false);
}

std::string json_line(const nlohmann::json& value) { return json_text(value, -1); }

std::string json_text(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace tachy
