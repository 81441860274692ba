#include "web_api/fields/request_reader.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/near_names.h"
#include "base/random_bytes.h"
#include "base/sha256.h"
#include "media/video/video_writer.h"
#include "web_api/fields/inputs.h"
#include "web_api/fields/loras.h"
#include "web_api/fields/size_text.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

constexpr Range kPriorities{.least = -10, .most = 10};
constexpr Range kQualities{.least = 0, .most = 51};
constexpr Range kSeconds{.least = 0, .most = 1e9, .above = true};

const Range& range_of(const char* member) {
  return std::get<Range>(field_of_member(member)->setting->allowed);
}

bool is_measure(const std::string& member) {
  return member == "width" || member == "height" || member == "frames";
}

uint64_t draw_seed() {
  // Programs in JavaScript keep whole numbers up to 2^53 only.
  uint32_t seed = 0;
  for (const char byte : random_bytes(4)) seed = seed << 8 | static_cast<unsigned char>(byte);
  return seed;
}

// No video has so many pixels or frames, whatever the memory. `nearest` is the model's own value.
[[noreturn]] void refuse_limit(const Value& value, double most, const json& nearest) {
  ApiError error(
      "over_limit",
      fmt::format("`{}`: at most {} is possible; what fits is {}", value.param, most, json_line(nearest)),
      value.param);
  error.nearest = nearest;
  throw error;
}

}  // namespace

JobRequest RequestReader::read() {
  if (!given_.find("prompt"))
    throw ApiError("missing_parameter", "`prompt`: say what the video should show", "prompt");
  take_model();
  take_settings();
  take_size();
  take_length();
  take_seed();
  take_adapters();
  take_encoding();
  take_priority();
  // Pictures, sounds and videos come last, since they are the only ones that cost time.
  for (const ApiField& field : api_fields()) {
    const Value* const value = given_.find(field.member);
    if (!value) continue;
    if (field.kind == ApiField::Kind::pictures)
      take_inputs(field, *value, given_, fields_, offers_, out_);
    else if (is_input(field.kind))
      take_input(field, *value, fields_, offers_, out_);
  }
  out_.dropped = given_.dropped;
  name_content();
  return std::move(out_);
}

const VideoRequest& RequestReader::defaults() {
  if (!engine_) engine_ = offers_.models.open(out_.model);
  return engine_->defaults();
}

void RequestReader::take_model() {
  const Value* const value = given_.find("model");
  const std::string name = value ? text_in(*value) : "";
  if (value && name.empty()) refuse(*value, "the name of a model");
  const workers::ServedModel* const model = offers_.models.find(name);
  if (!model) {
    std::vector<std::string> names;
    for (const workers::ServedModel& one : offers_.models.all())
      if (!one.world) names.push_back(one.name);
    std::string near;
    for (const std::string& one : near_names(name, names)) near += (near.empty() ? "; near: " : ", ") + one;
    throw ApiError("model_not_found",
                   fmt::format("`model`: this server has no model '{}'{}", shown(name), near),
                   value ? value->param : "model");
  }
  if (model->world)
    throw ApiError(
        "invalid_value",
        fmt::format("`model`: '{}' is a world, which is steered while it is made; it has a page at "
                    "/world/{}",
                    model->name, model->name),
        "model");
  out_.model = model->name;
  out_.job.settings.model = model->path.string();
  if (value) out_.given[value->param] = model->name;
}

void RequestReader::take_settings() {
  for (const ApiField& field : api_fields()) {
    const Value* const value = given_.find(field.member);
    const bool setting = field.kind == ApiField::Kind::setting || field.kind == ApiField::Kind::preset;
    if (!setting || !value) continue;
    if (is_measure(field.member)) {
      const Range& range = range_of(field.setting->name);
      const auto number =
          static_cast<double>(whole_number_in(*value, {range.least, static_cast<double>(kMostSide)}));
      const VideoRequest& r = number > range.most ? defaults() : request();
      const auto own = field.member == "width" ? r.width : field.member == "height" ? r.height : r.frames;
      if (number > range.most) refuse_limit(*value, range.most, {{value->param, own.value_or(1)}});
    }
    out_.given[value->param] = set_member(request(), *field.setting, *value);
  }
}

void RequestReader::take_size() {
  const Value* const value = given_.find("size");
  if (!value) return;
  const auto [width, height] = size_in(*value);
  const Range& range = range_of("width");
  if (static_cast<double>(std::max(width, height)) > range.most) {
    const VideoRequest& own = defaults();
    refuse_limit(*value, range.most,
                 {{value->param, fmt::format("{}x{}", own.width.value_or(1), own.height.value_or(1))}});
  }
  request().width = static_cast<int>(width), request().height = static_cast<int>(height);
  out_.given[value->param] = fmt::format("{}x{}", width, height);
}

void RequestReader::take_length() {
  const Value* const value = given_.find("seconds");
  if (!value) return;
  // The client sends it as a text even where numbers have a type.
  const double seconds = number_in({value->param, value->value, !value->value.is_string()}, kSeconds);
  const double fps = request().fps ? *request().fps : defaults().fps.value_or(16);
  const double frames = 4 * std::round(seconds * fps / 4) + 1;
  if (const double most = range_of("frames").most; frames > most)
    refuse_limit(*value, std::floor(most / fps), {{value->param, (defaults().frames.value_or(1) - 1) / fps}});
  request().frames = static_cast<int>(frames);
  out_.given[value->param] = value->value;
}

void RequestReader::take_seed() {
  const Value* const value = given_.find("seed");
  out_.seed_drawn = !value;
  if (value) request().seed = seed_in(*value, out_.seed_drawn);
  if (out_.seed_drawn)
    request().seed = draw_seed();
  else
    out_.given[value->param] = request().seed;
  out_.job.drawn = out_.seed_drawn;
}

void RequestReader::take_adapters() {
  out_.needs = out_.model;
  const Value* const value = given_.find("loras");
  if (!value) return;
  ChosenLoras chosen = choose_loras(*value, offers_.loras);
  request().loras = std::move(chosen.members);
  out_.given[value->param] = std::move(chosen.given);
  out_.needs += chosen.needs;
}

void RequestReader::take_encoding() {
  if (const Value* const value = given_.find("crf")) {
    out_.job.crf = static_cast<int>(whole_number_in(*value, kQualities));
    out_.given[value->param] = out_.job.crf;
  }
  if (const Value* const value = given_.find("speed")) {
    out_.job.encode_speed = choice_in(*value, Choices(std::begin(kEncodeSpeeds), std::end(kEncodeSpeeds)));
    out_.given[value->param] = out_.job.encode_speed;
  }
}

void RequestReader::take_priority() {
  const Value* const value = given_.find("priority");
  if (!value) return;
  out_.priority = static_cast<int>(whole_number_in(*value, kPriorities));
  if (out_.priority != 0 && !caller_.priority)
    throw ApiError("forbidden",
                   fmt::format("`{}`: only callers with the right `priority` may give one", value->param),
                   value->param);
  out_.given[value->param] = out_.priority;
}

// Two requests that mean the same have the same fingerprint, in whichever way they were spelt. A drawn seed is no part
// of what was asked for.
void RequestReader::name_content() {
  json content = {{"model", out_.model},      {"priority", out_.priority},
                  {"crf", out_.job.crf},      {"speed", out_.job.encode_speed},
                  {"inputs", json::object()}, {"fields", json::object()}};
  for (const RequestField& field : request_fields()) {
    if (field.name == std::string_view("seed") && out_.seed_drawn) continue;
    std::visit(
        [&](auto member) {
          if (const auto* value = value_in(request().*member)) content["fields"][field.name] = *value;
        },
        field.member);
  }
  for (const auto& [name, file] : out_.job.settings.inputs) content["inputs"][name] = file.sha256;
  Sha256 hash;
  hash.add(json_line(content));
  out_.fingerprint = hash.hex();
}

}  // namespace tachy::web_api
