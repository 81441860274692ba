// Saved presets: fields of a video under a name, which `preset` of a request lays under its own. Those that ship,
// for distilled models, are listed beside them and cannot be changed.
#include <algorithm>

#include "api/presets.h"
#include "base/json_text.h"
#include "base/utf8.h"
#include "web_api/api_error.h"
#include "web_api/asked.h"
#include "web_api/endpoint.h"
#include "web_api/video_object.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

constexpr int64_t kMostPresets = 1000;  // of one owner
constexpr size_t kMostNameBytes = 64;

bool ships(const std::string& name) {
  return std::ranges::any_of(list_presets(), [&](const PresetInfo& preset) { return preset.name == name; });
}

json preset_object(const std::string& name, json fields, bool built_in, const std::string& about) {
  return {{"id", name},
          {"object", "preset"},
          {"fields", std::move(fields)},
          {"about", about},
          {"built_in", built_in}};
}

// Checks a name that a caller gives. It goes into the table alone, never to a file.
void expect_preset_name(const std::string& name, const char* param) {
  const bool plain =
      !name.empty() && name.size() <= kMostNameBytes && find_invalid_utf8(name) == kValidUtf8 &&
      std::ranges::none_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f || c == '/'; });
  if (!plain)
    throw ApiError("invalid_value",
                   fmt::format("`name`: expected 1 to {} bytes without a slash", kMostNameBytes), param);
  if (ships(name)) throw ApiError("invalid_value", "`name`: a preset that ships has this name", param);
}

// Checks the fields as those of a video are checked. Inputs are not kept, nor is a preset within a preset.
json checked_fields(const Service& service, const http::Request& request, const json& fields) {
  if (!fields.is_object() || fields.empty())
    throw ApiError("invalid_value", "`fields`: expected an object of a video's fields", "fields");
  for (const auto& [field, value] : fields.items())
    if (field == "preset" || value.is_object())
      throw ApiError("invalid_value", "`" + field + "`: a preset cannot keep it", field);
  Fields tried{.values = fields, .typed = true};
  tried.values.emplace("prompt", "a prompt");
  parse_job(tried, request.caller, service.offers);
  return fields;
}

http::Reply store(Service& service, const http::Request& request, const std::string& name,
                  const json& fields) {
  const json checked = checked_fields(service, request, fields);
  service.table.save_preset({.name = name, .owner = request.caller.key, .fields = json_line(checked)},
                            kMostPresets);
  return http::json_reply(200, json_line(preset_object(name, checked, false, "")));
}

http::Reply list_all_presets(Service& service, http::Request& request) {
  json data = json::array();
  for (const queue::Preset& preset : service.table.presets(request.caller.key))
    data.push_back(preset_object(preset.name, stored_object(preset.fields), false, ""));
  for (const PresetInfo& preset : list_presets())
    data.push_back(preset_object(preset.name, {{"preset", preset.name}}, true, preset.about));
  return http::json_reply(200, json_line({{"object", "list"}, {"data", std::move(data)}}));
}

// POST has the name in the body: {"name": …, "fields": {…}}.
http::Reply create_preset(Service& service, http::Request& request) {
  const json body = fields_of(request).values;
  for (const auto& [field, value] : body.items())
    if (field != "name" && field != "fields")
      throw ApiError("unknown_parameter", "`" + field + "`: there is no such field", field);
  for (const char* field : {"name", "fields"})
    if (!body.contains(field))
      throw ApiError("missing_parameter", fmt::format("`{}`: it is missing", field), field);
  if (!body.at("name").is_string()) throw ApiError("invalid_value", "`name`: expected a text", "name");
  expect_preset_name(body.at("name"), "name");
  return store(service, request, body.at("name"), body.at("fields"));
}

// PUT has the name in the address, and the body is the fields.
http::Reply replace_preset(Service& service, http::Request& request) {
  expect_preset_name(request.captures.at(0), "");
  return store(service, request, request.captures.at(0), fields_of(request).values);
}

http::Reply delete_preset(Service& service, http::Request& request) {
  const std::string& name = request.captures.at(0);
  if (!service.table.remove_preset(request.caller.key, name))
    throw ApiError("not_found", "there is no saved preset with this name");
  return http::json_reply(200, json_line({{"id", name}, {"deleted", true}, {"object", "preset.deleted"}}));
}

}  // namespace

void add_preset_endpoints(Endpoints& to) {
  to.push_back({.method = "GET",
                .pattern = "/v1/presets",
                .id = "listPresets",
                .means = "Lists the caller's presets and those that ship.",
                .answer = list_all_presets,
                .reply = "PresetList"});
  to.push_back({.method = "POST",
                .pattern = "/v1/presets",
                .id = "createPreset",
                .means = "Saves fields of a video under a name.",
                .answer = create_preset,
                .reply = "Preset",
                .errors = {404},
                .body = "CreatePreset",
                .lane = http::Lane::slow});
  to.push_back({.method = "PUT",
                .pattern = "/v1/presets/{name}",
                .id = "replacePreset",
                .means = "Saves fields of a video under this name.",
                .answer = replace_preset,
                .reply = "Preset",
                .body = "PresetFields",
                .lane = http::Lane::slow});
  to.push_back({.method = "DELETE",
                .pattern = "/v1/presets/{name}",
                .id = "deletePreset",
                .means = "Removes a saved preset.",
                .answer = delete_preset,
                .reply = "DeletedPreset"});
}

}  // namespace tachy::web_api
