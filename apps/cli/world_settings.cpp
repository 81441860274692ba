#include "world_settings.h"

#include <nlohmann/json.hpp>

#include "api/fields.h"
#include "field_options.h"
#include "jobs/settings.h"
#include "jobs/settings_environment.h"

namespace tachy::cli {

using nlohmann::json;

json world_settings(const WorldCommandOptions& o, const World& world, const WorldScript& script,
                    int64_t frames, double fps) {
  const WorldInfo& info = world.info();
  const bool on_gpu = world.device() != "cpu";
  json actions = json::array();
  for (const ScriptedAction& a : script.actions)
    actions.push_back({{"frames", a.frames}, {"keyboard", a.action.keyboard}, {"mouse", a.action.mouse}});
  json out = {{"world", info.kind},  {"version", version()},      {"model", o.model},
              {"image", o.image},    {"prompt", o.prompt},        {"seed", o.seed},
              {"width", info.width}, {"height", info.height},     {"num_frames", frames},
              {"fps", fps},          {"actions", actions},        {"level", o.level},
              {"dtype", info.dtype}, {"residual", info.residual}, {"device", on_gpu ? "cuda" : "cpu"}};
  if (o.steps) out["num_inference_steps"] = *o.steps;
  if (o.shift) out["flow_shift"] = *o.shift;
  if (o.window) out["causal_window"] = *o.window;
  if (o.vae_math != "auto") out["vae_math"] = o.vae_math;
  if (!o.without.empty()) out["without"] = o.without;
  if (!o.image_embeds.empty()) out["image_embeds"] = o.image_embeds;
  for (const auto& [name, path] : {std::pair("image", o.image), std::pair("image_embeds", o.image_embeds)})
    if (!path.empty()) out[std::string(name) + "_sha256"] = jobs::sha256_of(path, name);
  for (const ModelPart& part : model_parts())
    if (const std::string& path = o.engine.*part.option; !path.empty()) out[part.name] = path;
  jobs::add_encoding(out, jobs::encoding_of(o.output, o.crf, o.encode_speed, {}));
  jobs::add_environment(out, on_gpu);
  return out;
}

}  // namespace tachy::cli
