// Presets, models, LoRAs, the server's state and its description.
#include <gmock/gmock.h>

#include <chrono>
#include <fstream>
#include <set>

#include "api_fixture.h"
#include "base/base64.h"
#include "web_api/endpoint.h"
#include "web_api/links.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;
using testing::ElementsAre;

std::vector<std::string> saved_names(const json& list) {
  std::vector<std::string> names;
  for (const json& preset : list.at("data"))
    if (!preset.at("built_in")) names.push_back(preset.at("id"));
  return names;
}

// Says which members of an object a schema of the description lacks or misses.
void expect_described(const json& schemas, const std::string& name, const json& object) {
  const json& schema = schemas.at(name);
  for (const auto& [member, value] : object.items())
    EXPECT_TRUE(schema.at("properties").contains(member)) << name << " lacks " << member;
  for (const json& member : schema.at("required"))
    EXPECT_TRUE(object.contains(member.get<std::string>())) << name << " has no " << member;
}

TEST_F(ApiTest, APresetIsSavedUsedAndRemoved) {
  EXPECT_EQ(call("PUT", "/v1/presets/small", {{"num_frames", 9}, {"size", "64x64"}}).status, 200);
  EXPECT_EQ(call("POST", "/v1/presets", {{"name", "fast"}, {"fields", {{"num_inference_steps", 2}}}}).status,
            200);
  const Answer list = call("GET", "/v1/presets");
  EXPECT_THAT(saved_names(list.body), testing::UnorderedElementsAre("small", "fast"));
  EXPECT_GT(list.body.at("data").size(), 2u) << "those that ship are listed, too";
  EXPECT_EQ(create({{"preset", "small"}}).body.at("num_frames"), 9);
  EXPECT_EQ(create({{"preset", "small"}, {"num_frames", 13}}).body.at("num_frames"), 13);
  EXPECT_EQ(call("DELETE", "/v1/presets/small").body.at("deleted"), true);
  EXPECT_EQ(call("DELETE", "/v1/presets/small").status, 404);
  EXPECT_EQ(create({{"preset", "small"}}).param(), "preset");
}

TEST_F(ApiTest, APresetIsCheckedLikeAVideo) {
  EXPECT_EQ(call("PUT", "/v1/presets/a", {{"num_frames", -1}}).param(), "num_frames");
  EXPECT_EQ(call("PUT", "/v1/presets/a", {{"stepz", 1}}).code(), "unknown_parameter");
  EXPECT_EQ(call("PUT", "/v1/presets/a", {{"preset", "lightning"}}).param(), "preset");
  EXPECT_EQ(call("PUT", "/v1/presets/a", json::object()).status, 400);
  EXPECT_EQ(call("PUT", "/v1/presets/" + std::string(65, 'a'), {{"seed", 1}}).status, 400);
  EXPECT_EQ(call("POST", "/v1/presets", {{"fields", {{"seed", 1}}}}).param(), "name");
  EXPECT_EQ(call("POST", "/v1/presets", {{"name", "a\nb"}, {"fields", {{"seed", 1}}}}).param(), "name");
  EXPECT_EQ(call("POST", "/v1/presets", {{"name", "a"}, {"fields", {{"seed", 1}}}, {"x", 1}}).param(), "x");
  const std::string shipped = call("GET", "/v1/presets").body.at("data").back().at("id");
  EXPECT_EQ(call("PUT", "/v1/presets/" + shipped, {{"seed", 1}}).status, 400);
  EXPECT_TRUE(saved_names(call("GET", "/v1/presets").body).empty());
}

TEST_F(ApiTest, PresetsBelongToTheirKey) {
  service->keys = true;
  EXPECT_EQ(call("PUT", "/v1/presets/mine", {{"seed", 1}}, {}, {.key = "alice"}).status, 200);
  EXPECT_TRUE(saved_names(call("GET", "/v1/presets", nullptr, {}, {.key = "bob"}).body).empty());
  EXPECT_EQ(call("DELETE", "/v1/presets/mine", nullptr, {}, {.key = "bob"}).status, 404);
}

TEST_F(ApiTest, AKeySaysWhatItAllows) {
  const json anybody = call("GET", "/v1/key").body;
  EXPECT_TRUE(anybody.at("name").is_null());
  EXPECT_EQ(anybody.at("keys"), false);
  EXPECT_EQ(anybody.at("admin"), true) << "without keys everybody sees everything";
  service->keys = true;
  const json alice = call("GET", "/v1/key", nullptr, {}, {.key = "alice", .priority = true}).body;
  EXPECT_EQ(alice.at("name"), "alice");
  EXPECT_EQ(alice.at("priority"), true);
  EXPECT_EQ(alice.at("admin"), false);
}

TEST_F(ApiTest, OnlyAdministratorsSeeWhoHasKeys) {
  service->keys = true;
  service->holders = {{.key = "alice"}, {.key = "root", .priority = true, .admin = true}};
  EXPECT_EQ(call("GET", "/v1/keys", nullptr, {}, {.key = "alice"}).code(), "forbidden");
  EXPECT_EQ(call("GET", "/v1/keys", nullptr, {}, {.key = "alice"}).status, 403);
  EXPECT_EQ(call("GET", "/v1/hosts", nullptr, {}, {.key = "alice"}).code(), "forbidden");
  EXPECT_EQ(call("GET", "/v1/hosts", nullptr, {}, {.key = "alice"}).status, 403);
  const json list = call("GET", "/v1/keys", nullptr, {}, {.key = "root", .admin = true}).body.at("data");
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].at("name"), "alice");
  EXPECT_EQ(list[1].at("admin"), true);
  EXPECT_EQ(list[1].size(), 4u) << "a name and two rights, and nothing of the key: " << list[1];
}

TEST_F(ApiTest, ModelsAreListed) {
  const Answer list = call("GET", "/v1/models");
  ASSERT_EQ(list.body.at("data").size(), 1u);
  const json& model = list.body.at("data").at(0);
  EXPECT_EQ(model.at("id"), "sprites");
  EXPECT_EQ(model.at("default"), true);
  EXPECT_EQ(model.at("created"), 1'700'000'000);
  EXPECT_EQ(call("GET", "/v1/models/sprites").body.at("object"), "model");
  EXPECT_EQ(model.at("takes"), nullptr) << "listing opens no model";
  const Answer none = call("GET", "/v1/models/sora-2");
  EXPECT_EQ(none.status, 404);
  EXPECT_EQ(none.code(), "model_not_found");
}

TEST_F(ApiTest, AModelThatIsOpenTellsWhatItTakes) {
  EXPECT_EQ(call("GET", "/v1/models/sprites?open=perhaps").param(), "open");
  const json model = call("GET", "/v1/models/sprites?open=true").body;
  EXPECT_EQ(model.at("makes"), "text-to-video");
  EXPECT_EQ(model.at("takes"), json({{"input_reference", "no"},
                                     {"last_image", "no"},
                                     {"audio_reference", "no"},
                                     {"video", "optional"},
                                     {"mask_video", "optional"},
                                     {"control_video", "no"},
                                     {"reference", "no"}}));
  EXPECT_EQ(model.at("experts"), 1);
  EXPECT_EQ(model.at("frame_multiple"), 4);
  EXPECT_EQ(model.at("defaults").at("size"), "128x128");
  EXPECT_EQ(model.at("defaults").at("negative_prompt"), "");
  EXPECT_EQ(call("GET", "/v1/models").body.at("data").at(0), model);
}

TEST_F(ApiTest, LorasAreListedByTheirNames) {
  EXPECT_EQ(call("GET", "/v1/loras").body.at("data"), json::array());
  EXPECT_EQ(call("GET", "/v1/loras/film/picture").status, 404);
  service->offers.loras = folder_;
  std::ofstream(folder_ / "ghibli.safetensors") << "1234";
  std::ofstream(folder_ / "notes.txt") << "1234";
  const json list = call("GET", "/v1/loras").body.at("data");
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list.at(0).at("id"), "ghibli");
  EXPECT_EQ(list.at(0).at("bytes"), 4);
  EXPECT_EQ(list.at(0).at("trigger_words"), json::array()) << "a file that is no LoRA is listed all the same";
  const json schemas = call("GET", "/openapi.json").body.at("components").at("schemas");
  expect_described(schemas, "Lora", list.at(0));
}

TEST_F(ApiTest, ALoraHasThePictureBesideIt) {
  const std::string png = "\x89PNG\r\n\x1a\n and more", jpeg = "\xff\xd8\xff\xe0 and more";
  const auto write = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / "loras" / name, std::ios::binary) << bytes;
  };
  const auto sent = [&](const std::string& name) {
    const Answer answer = call("GET", "/v1/loras/" + name + "/picture");
    return answer.status == 200 ? std::get<http::FileBody>(answer.reply.body).path.filename().string() : "";
  };
  std::filesystem::create_directories(folder_ / "loras");
  service->offers.loras = folder_ / "loras";
  for (const char* name : {"film", "old ink.v1", "bare", "false"})
    write(name + std::string(".safetensors"), "1");
  write("film.jpg", jpeg), write("old ink.v1.preview.png", png), write("false.png", "<script>");
  std::ofstream(folder_ / "secret.png", std::ios::binary) << png;
  const json list = call("GET", "/v1/loras").body.at("data");
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list.at(0).at("picture"), nullptr);
  EXPECT_EQ(list.at(1).at("picture"), nullptr) << "it is no picture, whatever its name says";
  EXPECT_EQ(list.at(2).at("picture"), "/v1/loras/film/picture");
  EXPECT_EQ(list.at(3).at("picture"), "/v1/loras/old%20ink.v1/picture");
  EXPECT_EQ(sent("film"), "film.jpg");
  EXPECT_EQ(call("GET", "/v1/loras/film/picture").header("Content-Type"), "image/jpeg");
  write("film.preview.webp", "RIFF1234WEBP");
  EXPECT_EQ(sent("film"), "film.preview.webp") << "one that is made for this comes first";
  EXPECT_EQ(sent("old ink.v1"), "old ink.v1.preview.png");
  write("bare.preview.gif", "GIF89a and more");
  EXPECT_EQ(sent("bare"), "bare.preview.gif");
  std::filesystem::rename(folder_ / "loras/bare.preview.gif", folder_ / "loras/bare.preview.more.gif");
  for (const char* name : {"bare", "false", "../secret", "secret", "..", "film.safetensors/..", "film.jpg"})
    EXPECT_EQ(sent(name), "") << name;
}

TEST_F(ApiTest, ALoraMayHaveItsPictureInItself) {
  std::filesystem::create_directories(folder_ / "loras");
  service->offers.loras = folder_ / "loras";
  const std::string png = "\x89PNG\r\n\x1a\n and more";
  const auto write = [&](const std::string& name, const json& covers) {
    const json header = {{"__metadata__", {{"ssmd_cover_images", covers.dump()}}},
                         {"a", {{"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {0, 4}}}}};
    const std::string text = header.dump();
    const uint64_t size = text.size();
    std::ofstream(folder_ / "loras" / (name + ".safetensors"), std::ios::binary)
        << std::string_view(reinterpret_cast<const char*>(&size), 8) << text << std::string(4, '\0');
  };
  write("covered", {to_base64(png), "more"});
  write("text", {to_base64("<script>")}), write("broken", {"?"}), write("number", {7}), write("none", json());
  const json list = call("GET", "/v1/loras").body.at("data");
  ASSERT_EQ(list.size(), 5u);
  for (const json& lora : list) EXPECT_EQ(lora.at("picture").is_string(), lora.at("id") == "covered") << lora;
  const Answer answer = call("GET", "/v1/loras/covered/picture");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(std::get<std::string>(answer.reply.body), png);
  EXPECT_EQ(answer.header("Content-Type"), "image/png");
  EXPECT_EQ(call("GET", "/v1/loras/text/picture").status, 404);
}

TEST_F(ApiTest, ReadinessIsThatOfTheDefaultModel) {
  EXPECT_EQ(call("GET", "/ready").status, 200);
  runs.open = false;
  const Answer answer = call("GET", "/ready");
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.message(), "the model is being opened");
}

TEST_F(ApiTest, TicketsAreForWorldsWhereThereAreKeys) {
  const auto path = std::filesystem::path(TACHY_SOURCE_DIR) / "models/sprites";
  workers::Models served({{.name = "sprites", .path = path}, {.name = "island", .path = path, .world = true}},
                         EngineOptions{.threads = 1});
  Service with_world{*table, *book, runs, {.models = served, .spool = folder_ / "spool"}, folder_};
  router = {};
  add_routes(router, with_world);
  const http::Caller alice{.key = "alice"};
  const auto ask = [&](const std::string& world) {
    return call("POST", "/world/" + world + "/ticket", nullptr, {}, alice);
  };
  EXPECT_EQ(ask("island").status, 404);
  EXPECT_THAT(ask("island").message(), testing::HasSubstr("no keys"));
  Tickets tickets(kTicketSeconds, 1);
  with_world.tickets = &tickets;
  for (const char* other : {"sprites", "nowhere"}) EXPECT_EQ(ask(other).code(), "not_found") << other;
  const Answer answer = ask("island");
  ASSERT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body.at("object"), "world.ticket");
  EXPECT_EQ(answer.body.at("seconds"), kTicketSeconds);
  EXPECT_EQ(answer.header("Cache-Control"), "no-store");
  EXPECT_EQ(ask("island").status, 503) << "one waits to be used, and no more may";
  const std::string ticket = answer.body.at("ticket");
  const int64_t now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  const auto caller = tickets.take(ticket, now);
  ASSERT_TRUE(caller);
  EXPECT_EQ(caller->key, "alice");
  EXPECT_FALSE(tickets.take(ticket, now));
}

TEST_F(ApiTest, MetricsAreATextForPrometheus) {
  EXPECT_EQ(call("GET", "/metrics").status, 404);
  service->metrics = [] { return std::string("tachyscope_queued 0\n"); };
  const Answer answer = call("GET", "/metrics");
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.header("Content-Type"), testing::StartsWith("text/plain; version=0.0.4"));
  EXPECT_EQ(std::get<std::string>(answer.reply.body), "tachyscope_queued 0\n");
}

TEST_F(ApiTest, AnUnknownAddressOrMethodIsSaid) {
  EXPECT_EQ(call("GET", "/v1/nothing").status, 404);
  EXPECT_EQ(call("PUT", "/v1/videos").status, 405);
}

// Calls `visit` with each "$ref" in the description.
void each_ref(const json& value, const std::function<void(const std::string&)>& visit) {
  if (value.is_object() && value.contains("$ref")) visit(value.at("$ref"));
  if (value.is_structured())
    for (const json& inner : value) each_ref(inner, visit);
}

TEST_F(ApiTest, TheDescriptionIsComplete) {
  const Answer answer = call("GET", "/openapi.json");
  ASSERT_EQ(answer.status, 200);
  const json& description = answer.body;
  EXPECT_EQ(description.at("openapi"), "3.1.0");
  const json& schemas = description.at("components").at("schemas");
  std::set<std::string> used;
  each_ref(description, [&](const std::string& ref) { used.insert(ref.substr(ref.rfind('/') + 1)); });
  for (const std::string& schema : used) EXPECT_TRUE(schemas.contains(schema)) << schema;
  for (const auto& [name, schema] : schemas.items()) EXPECT_TRUE(used.count(name)) << name << " is not used";
  std::set<std::string> ids;
  for (const Endpoint& endpoint : all_endpoints()) {
    std::string method = endpoint.method;
    for (char& c : method) c = static_cast<char>(std::tolower(c));
    EXPECT_TRUE(description.at("paths").at(endpoint.pattern).contains(method)) << endpoint.id;
    EXPECT_TRUE(ids.insert(endpoint.id).second) << endpoint.id;
  }
}

TEST_F(ApiTest, AnswersAreAsDescribed) {
  const json schemas = call("GET", "/openapi.json").body.at("components").at("schemas");
  const std::string id = created();
  complete(id);
  expect_described(schemas, "Video", call("GET", "/v1/videos/" + id).body);
  expect_described(schemas, "VideoList", call("GET", "/v1/videos").body);
  expect_described(schemas, "Plan", call("POST", "/v1/videos/plan", {{"prompt", "a"}}).body);
  expect_described(schemas, "Link", call("GET", "/v1/videos/" + id + "/link").body);
  expect_described(schemas, "Model", call("GET", "/v1/models/sprites").body);
  expect_described(schemas, "Key", call("GET", "/v1/key").body);
  expect_described(schemas, "KeyList", call("GET", "/v1/keys").body);
  expect_described(schemas, "Preset", call("PUT", "/v1/presets/a", {{"seed", 1}}).body);
  expect_described(schemas, "PresetList", call("GET", "/v1/presets").body);
  expect_described(schemas, "DeletedPreset", call("DELETE", "/v1/presets/a").body);
  expect_described(schemas, "Health", call("GET", "/health").body);
  expect_described(schemas, "Error", call("GET", "/v1/videos/x").body);
  expect_described(schemas, "DeletedVideo", call("DELETE", "/v1/videos/" + id).body);
}

}  // namespace
}  // namespace tachy::web_api
