#include "generate_job.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "api/fields.h"
#include "base/error.h"
#include "field_options.h"
#include "state_file.h"

namespace tachy::cli {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// "A red ball, rolling!" → "a-red-ball-rolling"; bytes outside ASCII letters and digits become dashes.
std::string slug(const std::string& prompt) {
  std::string out;
  for (const char c : prompt) {
    if (std::isalnum(static_cast<unsigned char>(c)) && static_cast<unsigned char>(c) < 128)
      out += static_cast<char>(std::tolower(c));
    else if (!out.empty() && out.back() != '-')
      out += '-';
    if (out.size() >= 48) break;
  }
  while (!out.empty() && out.back() == '-') out.pop_back();
  return out.empty() ? "video" : out;
}

// clip.mp4 → clip-2.mp4 when a run makes several.
fs::path numbered(const fs::path& path, size_t index, size_t count) {
  if (count == 1) return path;
  if (path.filename().empty()) return path / fmt::format("{}", index + 1) / "";
  return path.parent_path() /
         fmt::format("{}-{}{}", path.stem().string(), index + 1, path.extension().string());
}

}  // namespace

fs::path settings_path(const fs::path& output) {
  if (output.filename().empty()) return output / "settings.json";
  fs::path path = output;
  return path.replace_extension(".json");
}

std::vector<Job> make_jobs(const GenerateOptions& o) {
  RunSettings base;
  if (!o.from.empty()) base = read_settings(o.from);
  // The parts of an earlier run's model are not those of another one.
  if (!o.model.empty()) base.model = o.model, base.parts.clear();
  for (const FieldOption& part : model_part_options()) {
    const EngineField& field = *find_field(engine_fields(), part.field);
    const std::string& path = o.engine.*std::get<std::string EngineOptions::*>(field.member);
    if (!path.empty()) base.parts[field.name] = path;
  }
  for (const auto& [name, path] : o.inputs)
    if (!path.empty()) base.inputs[name] = {path, ""};
  o.apply(base.request);
  load_inputs(base);

  std::vector<std::string> prompts = all_prompts(o);
  if (prompts.empty() && !o.from.empty()) prompts = {base.request.prompt};
  require(!prompts.empty(), "a prompt is needed: tachyscope generate \"a red circle moves right\"");
  std::vector<uint64_t> seeds = o.seeds;
  if (seeds.empty()) seeds = {base.request.seed};
  const size_t count = prompts.size() * seeds.size();
  require(o.profile.empty() || count == 1, "--profile takes one prompt and one seed, got {} videos", count);
  require(o.save_latents.empty() || count == 1, "--save-latents takes one prompt and one seed, got {} videos",
          count);

  fs::path output = o.output;
  if (output.empty() && fs::path(o.from).extension() == ".resume") output = StateFile::output_of(o.from);
  std::vector<Job> jobs;
  for (const std::string& prompt : prompts)
    for (uint64_t seed : seeds) {
      Job job{base, {}};
      job.settings.request.prompt = prompt;
      job.settings.request.seed = seed;
      job.output = output.empty() ? fs::path(fmt::format("{}-{}.mp4", slug(prompt), seed))
                                  : numbered(output, jobs.size(), count);
      jobs.push_back(std::move(job));
    }
  return jobs;
}

bool is_complete(const fs::path& output, const json& settings) {
  std::error_code ec;
  const fs::path beside = settings_path(output);
  if (!fs::is_regular_file(beside, ec) ||
      (output.filename().string().find('%') == std::string::npos && !fs::exists(output, ec)))
    return false;
  try {
    return difference(json::parse(std::ifstream(beside)), settings).empty();
  } catch (const json::exception&) {
    return false;
  }
}

}  // namespace tachy::cli
