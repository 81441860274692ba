#include "world_actions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/text_file.h"

namespace tachy::cli {
namespace {

using nlohmann::json;

constexpr int64_t kMostFrames = int64_t{1} << 40;

void expect_members(const std::string& where, const json& j, const std::vector<std::string>& known) {
  check(j.is_object(), ErrorCode::invalid_argument, "{}: expected an object with {}", where,
        fmt::join(known, ", "));
  for (const auto& [name, value] : j.items())
    check(std::ranges::find(known, name) != known.end(), ErrorCode::invalid_argument,
          "{}: '{}' is unknown; expected {}", where, name, fmt::join(known, ", "));
}

void read_keys(const std::string& where, const json& keys, const WorldInfo& info, WorldAction& to) {
  check(keys.is_array(), ErrorCode::invalid_argument, "{}: keys: expected a list of names", where);
  to.keyboard.resize(info.keys.size());
  for (const json& key : keys) {
    check(key.is_string(), ErrorCode::invalid_argument, "{}: keys: expected names, got {}", where,
          json_line(key));
    const auto at = std::ranges::find(info.keys, key.get<std::string>());
    check(at != info.keys.end(), ErrorCode::invalid_argument, "{}: keys: {} is unknown; {}", where,
          json_line(key),
          info.keys.empty() ? std::string("this model has no keyboard")
                            : fmt::format("this model has {}", fmt::join(info.keys, ", ")));
    to.keyboard[static_cast<size_t>(at - info.keys.begin())] = 1;
  }
}

void read_mouse(const std::string& where, const json& mouse, const WorldInfo& info, WorldAction& to) {
  check(info.mouse, ErrorCode::invalid_argument, "{}: mouse: this model has no mouse", where);
  const bool numbers = mouse.is_array() && mouse.size() == 2 && mouse[0].is_number() && mouse[1].is_number();
  check(numbers, ErrorCode::invalid_argument, "{}: mouse: expected [pitch, yaw], got {}", where,
        json_line(mouse));
  for (const json& value : mouse) {
    const double v = value.get<double>();
    check(v >= -1 && v <= 1, ErrorCode::invalid_argument, "{}: mouse: expected -1 to 1, got {}", where, v);
    to.mouse.push_back(static_cast<float>(v));
  }
}

ScriptedAction read_action(const std::string& where, const json& j, const WorldInfo& info) {
  expect_members(where, j, {"frames", "keys", "mouse"});
  ScriptedAction out;
  const auto frames = j.find("frames");
  check(frames != j.end() && frames->is_number_integer() && frames->get<double>() >= 1 &&
            frames->get<double>() <= 1e9,
        ErrorCode::invalid_argument, "{}: frames: expected 1 to 1000000000, got {}", where,
        frames == j.end() ? "nothing" : frames->dump());
  out.frames = frames->get<int64_t>();
  if (const auto keys = j.find("keys"); keys != j.end()) read_keys(where, *keys, info, out.action);
  if (const auto mouse = j.find("mouse"); mouse != j.end()) read_mouse(where, *mouse, info, out.action);
  return out;
}

}  // namespace

int64_t WorldScript::frames() const {
  int64_t sum = 0;
  for (const ScriptedAction& a : actions) sum += a.frames;
  return sum;
}

WorldScript read_world_script(const std::filesystem::path& path, const WorldInfo& info) {
  const json j = parse_json_text(read_text_file(path), path.string());
  expect_members(path.string(), j, {"fps", "actions"});
  WorldScript out;
  if (const auto fps = j.find("fps"); fps != j.end()) {
    check(fps->is_number() && fps->get<double>() >= 0.1 && fps->get<double>() <= 240,
          ErrorCode::invalid_argument, "{}: fps: expected 0.1 to 240, got {}", path.string(), fps->dump());
    out.fps = fps->get<double>();
  }
  const auto actions = j.find("actions");
  check(actions != j.end() && actions->is_array() && !actions->empty(), ErrorCode::invalid_argument,
        "{}: actions: expected a list of at least one", path.string());
  for (size_t i = 0; i < actions->size(); ++i)
    out.actions.push_back(read_action(fmt::format("{}: actions[{}]", path.string(), i), (*actions)[i], info));
  check(out.frames() <= kMostFrames, ErrorCode::invalid_argument, "{}: {} frames are too many", path.string(),
        out.frames());
  return out;
}

const WorldAction& action_of_block(const WorldScript& script, int64_t first, int64_t frames) {
  static const WorldAction nothing;
  const WorldAction* best = &nothing;
  int64_t most = 0, begin = 0;
  for (const ScriptedAction& a : script.actions) {
    const int64_t end = begin + a.frames, shared = std::min(end, first + frames) - std::max(begin, first);
    if (shared > most) most = shared, best = &a.action;
    if (end >= first + frames) break;
    begin = end;
  }
  return *best;
}

}  // namespace tachy::cli
