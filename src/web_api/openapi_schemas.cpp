// The schemas of everything that the interface takes and gives (components of /openapi.json).
#include "web_api/endpoint.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

json text() { return {{"type", "string"}}; }
json whole() { return {{"type", "integer"}}; }
json number() { return {{"type", "number"}}; }
json truth() { return {{"type", "boolean"}}; }
json constant(const char* value) { return {{"type", "string"}, {"const", value}}; }
json fields() { return {{"type", "object"}}; }
json or_null(json schema) {
  schema["type"] = json::array({schema.at("type"), "null"});
  return schema;
}
json texts() { return {{"type", "array"}, {"items", text()}}; }
json list_of(const std::string& schema) {
  return {{"type", "array"}, {"items", {{"$ref", "#/components/schemas/" + schema}}}};
}

// An object whose members are all there, and that may have others in later versions.
json object_of(json members) {
  json required = json::array();
  for (const auto& [name, schema] : members.items()) required.push_back(name);
  return {{"type", "object"}, {"properties", std::move(members)}, {"required", std::move(required)}};
}

// A body that has the required fields, and no others than the named ones.
json body_with(json members, json required) {
  return {{"type", "object"},
          {"properties", std::move(members)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}

json video_error() { return object_of({{"code", text()}, {"message", text()}}); }

json video() {
  json members = {
      {"id", text()},
      {"object", constant("video")},
      {"created_at", whole()},
      {"completed_at", or_null(whole())},
      {"expires_at", or_null(whole())},
      {"started_at", or_null(whole())},
      {"ended_at", or_null(whole())},
      {"status", {{"type", "string"}, {"enum", {"queued", "in_progress", "completed", "failed"}}}},
      {"progress", {{"type", "integer"}, {"minimum", 0}, {"maximum", 100}}},
      {"model", text()},
      {"prompt", or_null(text())},
      {"seconds", text()},
      {"size", text()},
      {"error", or_null(video_error())},
      {"remixed_from_video_id", or_null(text())},
      {"extended_from_video_id", or_null(text())},
      {"extended_from_frame", or_null(whole())},
      {"kind", {{"type", "string"}, {"enum", {"video", "join"}}}},
      {"paused", truth()},
      {"priority", whole()},
      {"queue_position", or_null(whole())},
      {"eta_seconds", or_null(number())},
      {"worker", or_null(text())},
      {"why", or_null(text())},
      {"stage", or_null(text())},
      {"seed", or_null(whole())},
      {"num_frames", or_null(whole())},
      {"fps", or_null(number())},
      {"bytes", or_null(whole())},
      {"revision", text()},
      {"settings", fields()}};
  members["waits_for"] = texts();
  members["urls"] = object_of({{"self", text()},
                               {"events", text()},
                               {"video", or_null(text())},
                               {"thumbnail", or_null(text())},
                               {"spritesheet", or_null(text())}});
  return object_of(std::move(members));
}

json error() {
  json members = {
      {"message", text()}, {"type", text()}, {"param", or_null(text())}, {"code", or_null(text())}};
  json inner = object_of(std::move(members));
  inner["properties"]["nearest"] = fields();  // where something else would fit
  return object_of({{"error", std::move(inner)}});
}

json plan() {
  return object_of({{"object", constant("video.plan")},
                    {"model", text()},
                    {"gpu_bytes", whole()},
                    {"host_bytes", whole()},
                    {"seconds", number()},
                    {"seconds_to_preview", number()},
                    {"queue_position", whole()},
                    {"wait_seconds", number()},
                    {"waits_for_world", truth()},
                    {"fits", truth()},
                    {"reason", or_null(text())},
                    {"nearest", or_null(fields())},
                    {"warnings", texts()},
                    {"videos", fields()}});
}

json list_schema(const std::string& schema) {
  return object_of({{"object", constant("list")}, {"data", list_of(schema)}});
}

json video_list() {
  json list = list_schema("Video");
  list["properties"].update(
      {{"has_more", truth()}, {"first_id", or_null(text())}, {"last_id", or_null(text())}});
  for (const char* name : {"has_more", "first_id", "last_id"}) list["required"].push_back(name);
  return list;
}

json deleted(const char* object) {
  return object_of({{"id", text()}, {"deleted", truth()}, {"object", constant(object)}});
}

json model() {
  return object_of({{"id", text()},
                    {"object", constant("model")},
                    {"created", whole()},
                    {"owned_by", text()},
                    {"kind", {{"type", "string"}, {"enum", {"video", "world"}}}},
                    {"default", truth()},
                    {"defaults", or_null(fields())},
                    {"makes", or_null(text())},
                    {"takes", or_null(fields())},
                    {"experts", or_null(whole())},
                    {"size_multiple", or_null(whole())},
                    {"frame_multiple", or_null(whole())}});
}

json lora() {
  json members = {{"object", constant("lora")}, {"bytes", whole()}, {"trigger_words", texts()}};
  for (const char* name : {"id", "title", "notes", "base_model"}) members[name] = text();
  members["strength"] = or_null(number()), members["picture"] = or_null(text());
  return object_of(std::move(members));
}

json usage() {
  json members = {{"object", constant("usage")}, {"date", text()}, {"key", text()}, {"model", text()}};
  for (const char* name : {"videos", "frames"}) members[name] = whole();
  for (const char* name : {"pixels", "seconds"}) members[name] = number();
  return object_of(std::move(members));
}

json host() {
  json members = {{"id", text()}, {"object", constant("host")}, {"about", fields()}};
  members["alive"] = members["shares_files"] = truth(), members["silent_seconds"] = number();
  return object_of(std::move(members));
}

json ticket() {
  return object_of({{"object", constant("world.ticket")}, {"ticket", text()}, {"seconds", whole()}});
}

// The caller's own also says whether the server has keys.
json key(bool own) {
  json members = {
      {"object", constant("key")}, {"name", or_null(text())}, {"priority", truth()}, {"admin", truth()}};
  if (own) members["keys"] = truth();
  return object_of(std::move(members));
}

json preset() {
  return object_of({{"id", text()},
                    {"object", constant("preset")},
                    {"fields", fields()},
                    {"about", text()},
                    {"built_in", truth()}});
}

// Returns the fields of create without those that are required of it alone, and with others.
json variation(const json& create, json more, json required) {
  json schema = create;
  schema["properties"].update(more);
  if (required.empty())
    schema.erase("required");
  else
    schema["required"] = std::move(required);
  return schema;
}

}  // namespace

json description_schemas() {
  const json create = request_schema();
  const json id_of_video = {
      {"description", "The video, which need not be completed yet, as {\"id\": …} or as the id."},
      {"anyOf", {text(), {{"type", "object"}, {"properties", {{"id", text()}}}, {"required", {"id"}}}}}};
  json edited = create.at("properties").at("video");
  edited["oneOf"].push_back({{"type", "object"}, {"properties", {{"id", text()}}}, {"required", {"id"}}});
  edited["description"] = "The video to change: a file, or {\"id\": …} of one that was made here.";
  const json before = {
      {"type", {"string", "null"}},
      {"description", "The queued video in front of which this one goes; empty: to the end."}};
  const json frame = {{"type", "integer"}, {"minimum", 0}};
  json from_frame = frame;
  from_frame["description"] = "The picture to begin with, counted from 0; without it the last.";
  const json part = body_with({{"id", text()}, {"first_frame", frame}, {"last_frame", frame}}, {"id"});
  json parts = {{"type", "array"},
                {"items", {{"anyOf", {text(), part}}}},
                {"minItems", 1},
                {"maxItems", 100},
                {"description", "Ids, or objects that name the frames to take; one whole video is refused."}};
  json name = {{"type", "string"}, {"minLength", 1}, {"maxLength", 64}}, some = fields();
  some["minProperties"] = 1;
  return {{"Video", video()},
          {"VideoList", video_list()},
          {"DeletedVideo", deleted("video.deleted")},
          {"Error", error()},
          {"Plan", plan()},
          {"Link", object_of({{"object", constant("video.link")}, {"url", text()}, {"expires_at", whole()}})},
          {"Ticket", ticket()},
          {"Model", model()},
          {"ModelList", list_schema("Model")},
          {"Lora", lora()},
          {"LoraList", list_schema("Lora")},
          {"Key", key(true)},
          {"HeldKey", key(false)},
          {"KeyList", list_schema("HeldKey")},
          {"Preset", preset()},
          {"PresetList", list_schema("Preset")},
          {"DeletedPreset", deleted("preset.deleted")},
          {"UsageList", list_schema("Usage")},
          {"Usage", usage()},
          {"HostList", list_schema("Host")},
          {"Host", host()},
          {"Health", object_of({{"status", text()}, {"version", text()}})},
          {"Description", fields()},
          {"CreateVideo", create},
          {"RemixVideo", variation(create, json::object(), {"prompt"})},
          {"ExtendVideo",
           variation(create, {{"video", id_of_video}, {"from_frame", from_frame}}, {"video", "prompt"})},
          {"EditVideo", variation(create, {{"video", edited}}, {"video", "prompt"})},
          {"ChangeVideo", variation(create, {{"before", before}}, json::array())},
          {"JoinVideos", body_with({{"videos", std::move(parts)}}, {"videos"})},
          {"CreatePreset",
           body_with({{"name", std::move(name)}, {"fields", std::move(some)}}, {"name", "fields"})},
          {"PresetFields", variation(create, json::object(), json::array())},
          {"AnyFields", fields()}};
}

}  // namespace tachy::web_api
