// Lists the things that a request may name on this server: models and LoRAs.
#include "base/json_text.h"
#include "web_api/api_error.h"
#include "web_api/asked.h"
#include "web_api/endpoint.h"
#include "web_api/fields/lora_notes.h"
#include "web_api/fields/lora_picture.h"
#include "web_api/file_type.h"
#include "web_api/video_object.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

// The values of the fields that most requests give, as they are spelt there.
json default_fields(const VideoRequest& defaults) {
  const json facts = expected_facts(defaults);
  json fields = json::object();
  for (const auto& [fact, field] :
       std::initializer_list<std::pair<const char*, const char*>>{{"size", "size"},
                                                                  {"frames", "num_frames"},
                                                                  {"fps", "fps"},
                                                                  {"seconds", "seconds"},
                                                                  {"steps", "num_inference_steps"}})
    if (facts.contains(fact)) fields[field] = facts.at(fact);
  const auto add = [&](const char* field, const auto& value) {
    if (value) fields[field] = *value;
  };
  add("guidance_scale", defaults.guidance), add("guidance_scale_2", defaults.guidance_2);
  add("flow_shift", defaults.shift), add("sampler", defaults.sampler);
  add("negative_prompt", defaults.negative_prompt);
  return fields;
}

// Says what a request to the model may or must have beside its prompt: "no", "optional" or "required".
json taken_inputs(const ModelInputs& inputs) {
  return {{"input_reference", inputs.image},
          {"last_image", inputs.last_image},
          {"audio_reference", inputs.speech},
          {"video", inputs.video},
          {"mask_video", inputs.control == "no" ? inputs.video : inputs.control},
          {"control_video", inputs.control},
          {"reference", inputs.control}};
}

// The defaults are known only of a model that somebody has opened; listing opens none.
json model_object(const workers::Models& models, const workers::ServedModel& model) {
  const workers::ServedModel* first = models.find("");
  json object = {{"id", model.name},
                 {"object", "model"},
                 {"created", model.since},
                 {"owned_by", "tachyscope"},
                 {"kind", model.world ? "world" : "video"},
                 {"default", first && first->name == model.name},
                 {"defaults", nullptr},
                 {"makes", nullptr},
                 {"takes", nullptr},
                 {"experts", nullptr},
                 {"size_multiple", nullptr},
                 {"frame_multiple", nullptr}};
  if (const auto engine = model.world ? nullptr : models.opened(model.name)) {
    const ModelInputs inputs = engine->inputs();
    object.update({{"defaults", default_fields(engine->defaults())},
                   {"makes", inputs.kind},
                   {"takes", taken_inputs(inputs)},
                   {"experts", inputs.experts},
                   {"size_multiple", engine->size_multiple()},
                   {"frame_multiple", engine->frame_multiple()}});
  }
  return object;
}

http::Reply list_models(Service& service, http::Request&) {
  json data = json::array();
  for (const workers::ServedModel& model : service.offers.models.all())
    data.push_back(model_object(service.offers.models, model));
  return http::json_reply(200, json_line({{"object", "list"}, {"data", std::move(data)}}));
}

http::Reply retrieve_model(Service& service, http::Request& request) {
  const std::string& name = request.captures.at(0);
  const workers::ServedModel* model = name.empty() ? nullptr : service.offers.models.find(name);
  if (!model) throw ApiError("model_not_found", "there is no model with this name; /v1/models lists them");
  if (choice_asked(request, "open", {"false", "true"}) == "true" && !model->world)
    service.offers.models.open(name);
  return http::json_reply(200, json_line(model_object(service.offers.models, *model)));
}

// Returns the name as a part of an address.
std::string percent_encoded(const std::string& name) {
  std::string out;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) ||
        std::string_view("-._~").find(c) != std::string_view::npos)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return out;
}

// The names are those, without folders and endings, by which a request gives them.
json lora_object(const OfferedLora& lora) {
  const LoraNotes notes = notes_of(lora);
  return {{"id", lora.name},
          {"object", "lora"},
          {"bytes", lora.bytes},
          {"title", notes.title},
          {"notes", notes.notes},
          {"base_model", notes.base},
          {"trigger_words", notes.words},
          {"strength", notes.strength ? json(*notes.strength) : json()},
          {"picture", !notes.has_cover && picture_of_lora(lora).empty()
                          ? json()
                          : json("/v1/loras/" + percent_encoded(lora.name) + "/picture")}};
}

// The name is compared with those of the files that there are, so that it leads nowhere else.
http::Reply lora_picture(Service& service, http::Request& request) {
  for (const OfferedLora& lora : offered_loras(service.offers.loras)) {
    if (lora.name != request.captures.at(0)) continue;
    const std::filesystem::path file = picture_of_lora(lora);
    http::Reply reply;
    if (file.empty()) {
      std::string cover = cover_of_lora(lora);
      if (cover.empty()) throw ApiError("not_found", "this LoRA has no picture");
      reply.headers = {{"Content-Type", type_of_bytes(cover)}, {"Cache-Control", "private, no-cache"}};
      reply.body = std::move(cover);
      return reply;
    }
    std::error_code ignored;
    const auto time = std::filesystem::last_write_time(file, ignored).time_since_epoch().count();
    reply.headers = {{"Content-Type", type_of_file(file)}, {"Cache-Control", "private, no-cache"}};
    reply.body =
        http::FileBody{file, fmt::format("\"{}-{}\"", time, std::filesystem::file_size(file, ignored))};
    return reply;
  }
  throw ApiError("not_found", "there is no LoRA with this name; /v1/loras lists them");
}

http::Reply list_loras(Service& service, http::Request&) {
  json data = json::array();
  if (!service.offers.loras.empty())
    for (const OfferedLora& lora : offered_loras(service.offers.loras)) data.push_back(lora_object(lora));
  return http::json_reply(200, json_line({{"object", "list"}, {"data", std::move(data)}}));
}

}  // namespace

void add_offer_endpoints(Endpoints& to) {
  to.push_back({.method = "GET",
                .pattern = "/v1/models",
                .id = "listModels",
                .means = "Lists the models of this server.",
                .answer = list_models,
                .reply = "ModelList"});
  to.push_back({.method = "GET",
                .pattern = "/v1/models/{name}",
                .id = "retrieveModel",
                .means = "Returns what is known of a model.",
                .answer = retrieve_model,
                .reply = "Model",
                .lane = http::Lane::slow,
                .parameters = {{"open",
                                "query",
                                {{"type", "string"}, {"enum", {"false", "true"}}},
                                "With true the model is opened first, so that its defaults are known."}}});
  to.push_back({.method = "GET",
                .pattern = "/v1/loras",
                .id = "listLoras",
                .means = "Lists the LoRAs of this server.",
                .answer = list_loras,
                .reply = "LoraList",
                .lane = http::Lane::slow});
  to.push_back({.method = "GET",
                .pattern = "/v1/loras/{name}/picture",
                .id = "retrieveLoraPicture",
                .means = "Sends the picture that lies beside a LoRA's file.",
                .answer = lora_picture,
                .reply = "application/octet-stream",
                .errors = {206, 304, 416},
                .lane = http::Lane::slow});
}

}  // namespace tachy::web_api
