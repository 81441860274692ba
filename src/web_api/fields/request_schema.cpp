// The JSON schema of a request, made from the same table as its reading.
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "media/video/video_writer.h"
#include "web_api/fields/field_names.h"
#include "web_api/fields/values.h"
#include "web_api/job_request.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

// Returns the help with the names of this interface in place of the members' names, and without backticks.
std::string description(const ApiField& field) {
  std::string out = with_spellings(field.help, {});
  std::erase(out, '`');
  if (!field.aliases.empty()) out += fmt::format(" (also: {})", fmt::join(field.aliases, ", "));
  return out;
}

json texts(const Choices& choices) {
  json out = json::array();
  for (const std::string_view choice : choices) out.push_back(choice);
  return out;
}

void add_range(json& schema, const Allowed& allowed) {
  const auto* range = std::get_if<Range>(&allowed);
  if (!range) return;
  schema[range->above ? "exclusiveMinimum" : "minimum"] = range->least;
  schema["maximum"] = range->most;
}

json text_schema(const RequestField& field) {
  const std::string_view name = field.name;
  json out = {{"type", "string"}, {"maxLength", kMostTextCharacters}};
  if (name == "prompt" || name == "negative_prompt") out["maxLength"] = kMostPromptCharacters;
  if (name == "prompt") out["minLength"] = 1, out["pattern"] = "\\S";
  if (const auto* choices = std::get_if<Choices>(&field.allowed)) {
    if (*choices == Choices{"on", "off"}) return {{"enum", {"on", "off", true, false}}};
    out = {{"type", "string"}, {"enum", texts(*choices)}};
  }
  return out;
}

json list_schema() {
  const json text = {{"type", "string"}, {"maxLength", kMostTextCharacters}};
  return {{"oneOf", {text, {{"type", "array"}, {"items", text}, {"maxItems", kMostListed}}}}};
}

json setting_schema(const RequestField& field) {
  return std::visit(
      [&](auto member) -> json {
        using T = std::decay_t<decltype(*value_in(VideoRequest().*member))>;
        if constexpr (std::is_same_v<T, std::string>) return text_schema(field);
        if constexpr (std::is_same_v<T, std::vector<std::string>>) return list_schema();
        json out = {{"type", std::is_integral_v<T> ? "integer" : "number"}};
        add_range(out, field.allowed);
        return out;
      },
      field.member);
}

json lora_schema() {
  const json lora = {{"type", "object"},
                     {"properties",
                      {{"name", {{"type", "string"}}},
                       {"strength", {{"type", "number"}, {"minimum", -100}, {"maximum", 100}}},
                       {"expert", {{"enum", {"high", "low", "both"}}}}}},
                     {"required", {"name"}},
                     {"additionalProperties", false}};
  const json name = {{"type", "string"}};
  const json list = {{"type", "array"}, {"items", {{"oneOf", {lora, name}}}}, {"maxItems", kMostListed}};
  return {{"oneOf", {list, lora, name}}};
}

// In a multipart body it may also be a file.
json input_schema(const char* key) {
  const json url = {{"type", "string"}, {"format", "uri"}};
  return {{"oneOf",
           {url,
            {{"type", "object"},
             {"properties", {{key, url}}},
             {"required", {key}},
             {"additionalProperties", false}}}}};
}

json pictures_schema() {
  json out = input_schema("image_url");
  const json one = {{"oneOf", out.at("oneOf")}};
  out["oneOf"].push_back({{"type", "array"}, {"items", one}, {"minItems", 1}, {"maxItems", 4}});
  return out;
}

json schema_of(const ApiField& field) {
  using Kind = ApiField::Kind;
  switch (field.kind) {
    case Kind::setting:
      return setting_schema(*field.setting);
    case Kind::seed:
      return {{"type", "integer"}, {"minimum", -1}, {"maximum", std::numeric_limits<uint64_t>::max()}};
    case Kind::loras:
      return lora_schema();
    case Kind::picture:
      return input_schema("image_url");
    case Kind::pictures:
      return pictures_schema();
    case Kind::sound:
      return input_schema("audio_url");
    case Kind::video:
      return input_schema("video_url");
    case Kind::seconds:
      return {{"oneOf",
               {{{"type", "number"}, {"exclusiveMinimum", 0}},
                {{"type", "string"}, {"pattern", "^[0-9]+(\\.[0-9]+)?$"}}}}};
    case Kind::size:
      return {{"type", "string"}, {"pattern", "^[1-9][0-9]{0,8}[xX*][1-9][0-9]{0,8}$"}};
    case Kind::priority:
      return {{"type", "integer"}, {"minimum", -10}, {"maximum", 10}};
    case Kind::crf:
      return {{"type", "integer"}, {"minimum", 0}, {"maximum", 51}};
    case Kind::encode_speed:
      return {{"type", "string"},
              {"enum", texts(Choices(std::begin(kEncodeSpeeds), std::end(kEncodeSpeeds)))}};
    case Kind::extra:
      return {{"type", "object"}};
    case Kind::preset:
    case Kind::model:
      break;
  }
  return {{"type", "string"}, {"minLength", 1}, {"maxLength", kMostTextCharacters}};
}

// A field that is null counts as not given.
json or_null(json schema) {
  if (schema.contains("type")) schema["type"] = {schema["type"], "null"};
  if (schema.contains("enum")) schema["enum"].push_back(nullptr);
  if (schema.contains("oneOf")) schema["oneOf"].push_back({{"type", "null"}});
  return schema;
}

}  // namespace

json request_schema() {
  json properties = json::object();
  for (const ApiField& field : api_fields()) {
    json& schema = properties[field.name] = schema_of(field);
    if (field.member != "prompt") schema = or_null(std::move(schema));
    schema["description"] = description(field);
    if (!field.aliases.empty()) schema["x-aliases"] = field.aliases;  // further spellings
  }
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", {"prompt"}},
          {"additionalProperties", false}};
}

}  // namespace tachy::web_api
