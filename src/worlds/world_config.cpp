#include "worlds/world_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "weights/json_file.h"

namespace tachy {
namespace {

// The values are from Matrix-Game 2's configs and its programs' key tables, and from Self-Forcing's and
// CausVid's configs.
std::vector<WorldConfig> published() {
  const auto game = [](const char* kind, std::vector<std::string> keys, int rest, bool mouse,
                       int64_t window) {
    WorldConfig c{.kind = kind, .width = 640, .height = 352, .fps = 25, .keys = std::move(keys)};
    c.rest_key = rest, c.mouse = mouse, c.mouse_step = mouse ? 0.1 : 0;
    c.window = window;
    c.few_step = rest < 0 ? "matrix-game-2-3" : "matrix-game-2-4";
    return c;
  };
  WorldConfig self_forcing{.kind = "self-forcing", .width = 832, .height = 480, .fps = 16, .keys = {}};
  self_forcing.few_step = "self-forcing-4";
  WorldConfig causvid = self_forcing;
  causvid.kind = "causvid", causvid.few_step = "causvid-causal-3", causvid.shift = 8;
  return {game("universal", {"W", "S", "A", "D"}, -1, true, 6), game("gta", {"W", "S"}, -1, true, 4),
          game("templerun", {"still", "W", "S", "Z", "C", "A", "D"}, 0, false, 6), self_forcing, causvid};
}

std::string kind_by_shape(const WanActionConfig& a) {
  const bool mouse = a.mouse_dim == 2;
  if (a.keyboard_dim == 4 && mouse) return "universal";
  if (a.keyboard_dim == 2 && mouse) return "gta";
  return a.keyboard_dim == 7 && a.mouse_dim == 0 ? "templerun" : "steered";
}

// Returns the published settings of this kind; for another kind the nearest ones, with the model's own keys.
WorldConfig config_of(const ModelBundle& model, const std::string& kind) {
  for (WorldConfig& known : published())
    if (known.kind == kind) return known;
  const bool actions = model.family->actions;
  WorldConfig c = published()[actions ? 0 : 3];
  c.kind = kind, c.keys.clear();
  for (int64_t i = 0; actions && i < model.dit.actions.keyboard_dim; ++i)
    c.keys.push_back(fmt::format("key {}", i));
  return c;
}

void read_world(const nlohmann::json& j, WorldConfig& c) {
  c.width = static_cast<int>(json_int(j, "width", c.width, 16, 1 << 13));
  c.height = static_cast<int>(json_int(j, "height", c.height, 16, 1 << 13));
  c.fps = json_double(j, "fps", c.fps, 0.1, 1000);
  c.mouse_step = json_double(j, "mouse_step", c.mouse_step, 0, 1);
  if (const auto keys = j.find("keys"); keys != j.end()) {
    const auto is_name = [](const auto& key) {
      return key.is_string() && !key.template get<std::string>().empty();
    };
    check(keys->is_array() && keys->size() <= 256 && std::ranges::all_of(*keys, is_name), ErrorCode::corrupt,
          "keys: expected a list of names");
    c.keys = keys->get<std::vector<std::string>>();
    auto sorted = c.keys;
    std::ranges::sort(sorted);
    check(std::ranges::adjacent_find(sorted) == sorted.end(), ErrorCode::corrupt,
          "keys: expected each name once");
  }
  c.rest_key = static_cast<int>(json_int(j, "rest_key", c.rest_key, -1, 255));
  if (j.contains("timesteps")) {
    c.timesteps = json_doubles(j, "timesteps", 1000);
    check(!c.timesteps.empty() && c.timesteps[0] <= 1000 && c.timesteps.back() > 0 &&
              std::ranges::is_sorted(c.timesteps, std::greater<>()) &&
              std::ranges::adjacent_find(c.timesteps) == c.timesteps.end(),
          ErrorCode::corrupt, "timesteps: expected numbers that fall from at most 1000 to above 0");
    c.few_step.clear();
  }
  if (const std::string name = json_string(j, "sampler", ""); !name.empty()) {
    check(name == "euler" || name == "lcm", ErrorCode::corrupt, "sampler: expected euler or lcm, got '{}'",
          name);
    check(!c.timesteps.empty(), ErrorCode::corrupt, "sampler: it can only be given with a list of timesteps");
    c.sampler = parse_sampler(name);
  }
  c.shift = json_double(j, "shift", c.shift, 0.01, 100);
  if (j.contains("shift") && c.timesteps.empty()) c.few_step.clear();
  c.block = json_int(j, "block", c.block, 1, 64);
  c.first_block = json_int(j, "first_block", c.block, 1, 64);
  c.window = json_int(j, "window", c.window, 1, 1 << 12);
  c.sinks = json_int(j, "sinks", c.sinks, 0, 1 << 12);
}

void check_keys(const ModelBundle& model, const WorldConfig& c) {
  const WanActionConfig& a = model.dit.actions;
  const auto keys = static_cast<int64_t>(c.keys.size());
  const bool actions = model.family->actions;
  const int64_t expected = actions ? a.keyboard_dim : 0;
  check(keys == expected && c.rest_key < keys, ErrorCode::corrupt,
        "{}: the model has {} keys, and \"world\" of generation_config.json names {} (kind {})",
        model.files.root.string(), expected, keys, c.kind);
  check(!actions || a.mouse_dim == (c.mouse ? 2 : 0), ErrorCode::unsupported,
        "{}: a mouse of {} values; 2 are supported, or none", model.files.root.string(), a.mouse_dim);
}

// Returns the model's list of timesteps before its shift, so that another shift can be applied.
std::vector<double> unshifted(const WorldConfig& c) {
  if (!c.timesteps.empty()) return c.timesteps;
  if (c.few_step == "matrix-game-2-3" || c.kind == "universal" || c.kind == "gta") return {1000, 666, 333};
  return {1000, 750, 500, 250};
}

}  // namespace

bool made_block_by_block(const ModelBundle& model) {
  const auto& settings = model.files.generation_config;
  return model.family->actions || model.dit.window > 0 || (settings && settings->contains("world"));
}

WorldConfig world_config(const ModelBundle& model, const WorldChoices& choices) {
  const WanConfig& dit = model.dit;
  const bool actions = model.family->actions;
  check(model.family->worlds && !dit.audio_branch(), ErrorCode::unsupported,
        "{}: this {} model makes no worlds; models of actions (Matrix-Game 2) do, and, block by block, "
        "text-to-video models of one transformer (Self-Forcing, CausVid)",
        model.files.root.string(), model.kind());
  check(actions ? dit.text_dim == 0 && dit.image_dim > 0 : dit.text_dim > 0, ErrorCode::unsupported,
        "{}: a model of actions with {} text channels and {} image channels", model.files.root.string(),
        dit.text_dim, dit.image_dim);
  const nlohmann::json* world = nullptr;
  if (const auto& j = model.files.generation_config)
    if (const auto at = j->find("world"); at != j->end() && at->is_object()) world = &*at;
  const std::string where = (model.files.root / "generation_config.json").string() + ": world";
  std::string kind = actions ? kind_by_shape(dit.actions) : "self-forcing";
  if (world) kind = naming(where, [&] { return json_string(*world, "kind", kind); });
  WorldConfig c = config_of(model, kind);
  if (actions) c.mouse = dit.actions.mouse_dim > 0;
  if (dit.window > 0) c.window = dit.window, c.sinks = dit.sinks;
  if (world) naming(where, [&] { read_world(*world, c); });
  check_keys(model, c);

  if (choices.width > 0) c.width = choices.width;
  if (choices.height > 0) c.height = choices.height;
  for (const auto& [field, size] : {std::pair("width", c.width), std::pair("height", c.height)})
    require(size >= model.size_multiple() && size % model.size_multiple() == 0 && size <= 1 << 13,
            "`{}`: expected a multiple of {} up to {}, got {}", field, model.size_multiple(), 1 << 13, size);
  if (choices.window) c.window = *choices.window;
  const int64_t most = std::max(c.block, c.first_block);
  require(c.window >= most + c.sinks && c.window <= 1 << 12,
          "`window`: expected {} (a block{}) to {} latent frames, got {}", most + c.sinks,
          c.sinks > 0 ? " and the first frames, which are kept" : "", 1 << 12, c.window);
  if (choices.shift) {
    require(*choices.shift >= 0.01 && *choices.shift <= 100, "`shift`: expected 0.01 to 100, got {:g}",
            *choices.shift);
    c.timesteps = unshifted(c), c.few_step.clear(), c.shift = *choices.shift;
  }
  world_sampler(c, choices);
  return c;
}

SamplerConfig world_sampler(const WorldConfig& c, const WorldChoices& choices) {
  SamplerConfig all;
  if (!c.few_step.empty()) {
    all = few_step_config(c.few_step);
    if (all.timesteps.empty())
      for (const double sigma : all.sigmas) all.timesteps.push_back(1000 * sigma);
  } else {
    all.kind = c.sampler;
    for (const double t : unshifted(c)) {
      const double sigma = c.shift * t / 1000 / (1 + (c.shift - 1) * t / 1000);
      all.sigmas.push_back(sigma), all.timesteps.push_back(1000 * sigma);
    }
  }
  const auto count = static_cast<int>(all.sigmas.size()), steps = choices.steps.value_or(count);
  require(steps >= 1 && steps <= count, "`steps`: the model's list has {} steps, expected 1 to {}, got {}",
          count, count, steps);
  SamplerConfig out = all;
  out.steps = steps;
  out.sigmas.clear(), out.timesteps.clear();
  for (int i = 0; i < steps; ++i) {
    const auto at = static_cast<size_t>(i * count / steps);
    out.sigmas.push_back(all.sigmas[at]), out.timesteps.push_back(all.timesteps[at]);
  }
  return out;
}

}  // namespace tachy
