#include "web_api/fields/loras.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/near_names.h"
#include "base/utf8.h"
#include "web_api/api_error.h"

namespace tachy::web_api {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kEndings[] = {".safetensors", ".sft", ".gguf", ".pt", ".pth", ".ckpt", ".bin"};
constexpr size_t kMostLoraFiles = 100'000;
constexpr Range kStrengths{.least = -100, .most = 100};

// Returns the name without its ending, or "" for a file that is no adapter.
std::string stem_of(const std::string& file) {
  for (const std::string_view ending : kEndings)
    if (file.size() > ending.size() && file.ends_with(ending))
      return file.substr(0, file.size() - ending.size());
  return "";
}

[[noreturn]] void refuse_lora(const Value& value, const std::string& why) {
  throw ApiError("invalid_value", fmt::format("`{}`: {}", value.param, why), value.param);
}

const OfferedLora& find_lora(const Value& value, const std::string& name,
                             const std::vector<OfferedLora>& offered) {
  std::vector<std::string> names;
  for (const OfferedLora& one : offered) {
    if (one.name == name || one.path.filename() == name) return one;
    names.push_back(one.name);
  }
  if (names.empty())
    refuse_lora(value, fmt::format("there is no LoRA '{}'; this server offers none", shown(name)));
  const std::vector<std::string> near = near_names(name, names);
  refuse_lora(value, fmt::format("there is no LoRA '{}'{}{}", shown(name),
                                 near.empty() ? "" : "; near: ", fmt::join(near, ", ")));
}

void choose(const Value& value, const json& one, bool typed, const std::vector<OfferedLora>& offered,
            ChosenLoras& out) {
  const json entry = one.is_string() ? json{{"name", one}} : one;
  if (!entry.is_object()) refuse(value, "a list of objects with a name, a strength and an expert");
  for (const auto& [key, member] : entry.items())
    if (key != "name" && key != "strength" && key != "expert")
      refuse_lora(value, fmt::format("an entry has name, strength and expert, and no '{}'", shown(key)));
  if (!entry.contains("name")) refuse_lora(value, "an entry needs a name");
  const OfferedLora& lora = find_lora(value, text_in({value.param, entry["name"]}), offered);
  std::string rest;
  json given = {{"name", lora.name}};
  if (entry.contains("strength") && !entry["strength"].is_null()) {
    given["strength"] = number_in({value.param, entry["strength"], typed}, kStrengths);
    rest += fmt::format(":{}", given["strength"].get<double>());
  }
  if (entry.contains("expert") && !entry["expert"].is_null()) {
    given["expert"] = choice_in({value.param, entry["expert"]}, {"high", "low", "both"});
    rest += "@" + given["expert"].get<std::string>();
  }
  out.members.push_back(lora.path.string() + rest);
  out.needs += "\n" + lora.name + rest;
  out.given.push_back(std::move(given));
}

}  // namespace

std::vector<OfferedLora> offered_loras(const fs::path& folder) {
  std::vector<OfferedLora> out;
  if (folder.empty()) return out;
  std::error_code error, ignored;
  std::map<std::string, int> stems;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string file = it->path().filename().string(), stem = stem_of(file);
    if (stem.empty() || find_invalid_utf8(file) != kValidUtf8 || !it->is_regular_file(ignored)) continue;
    check(out.size() < kMostLoraFiles, ErrorCode::unsupported, "the folder of LoRAs has more than {} files",
          kMostLoraFiles);
    out.push_back({stem, it->path(), it->file_size(ignored)});
    ++stems[stem];
  }
  check(!error, ErrorCode::io, "the folder of LoRAs cannot be read: {}", error.message());
  for (OfferedLora& one : out)
    if (stems[one.name] > 1) one.name = one.path.filename().string();
  std::ranges::sort(out, {}, &OfferedLora::name);
  return out;
}

ChosenLoras choose_loras(const Value& value, const fs::path& folder) {
  const Value list = unwrapped(value);
  if (list.from_file) refuse(value, "a list of objects with a name, a strength and an expert");
  const json entries = list.value.is_array() ? list.value : json::array({list.value});
  if (entries.size() > kMostListed)
    refuse_lora(value, fmt::format("expected at most {} entries, got {}", kMostListed, entries.size()));
  const std::vector<OfferedLora> offered = offered_loras(folder);
  ChosenLoras out{.members = {}, .given = json::array(), .needs = ""};
  for (const json& one : entries) choose(value, one, list.typed, offered, out);
  return out;
}

}  // namespace tachy::web_api
