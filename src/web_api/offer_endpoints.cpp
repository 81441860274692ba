// Lists the things that a request may name on this server: models and LoRAs.
#include "base/json_text.h"
#include "web_api/api_error.h"
#include "web_api/endpoint.h"
#include "web_api/fields/loras.h"
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
  if (defaults.guidance) fields["guidance_scale"] = *defaults.guidance;
  return fields;
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
                 {"defaults", nullptr}};
  if (const auto engine = model.world ? nullptr : models.opened(model.name))
    object["defaults"] = default_fields(engine->defaults());
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
  return http::json_reply(200, json_line(model_object(service.offers.models, *model)));
}

// Only the names, without folders and endings, by which a request gives them.
http::Reply list_loras(Service& service, http::Request&) {
  json data = json::array();
  if (!service.offers.loras.empty())
    for (const OfferedLora& lora : offered_loras(service.offers.loras))
      data.push_back({{"id", lora.name}, {"object", "lora"}, {"bytes", lora.bytes}});
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
                .reply = "Model"});
  to.push_back({.method = "GET",
                .pattern = "/v1/loras",
                .id = "listLoras",
                .means = "Lists the LoRAs of this server.",
                .answer = list_loras,
                .reply = "LoraList"});
}

}  // namespace tachy::web_api
