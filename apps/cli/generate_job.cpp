#include "generate_job.h"

#include <fmt/format.h>

#include <optional>

#include "api/fields.h"
#include "base/error.h"
#include "field_options.h"
#include "job_start.h"
#include "output_name.h"
#include "prompt_tags.h"
#include "seed.h"
#include "state_file.h"

namespace tachy::cli {

namespace fs = std::filesystem;

namespace {

// clip.mp4 → clip-2.mp4 when a run makes several.
fs::path numbered(const fs::path& path, size_t index, size_t count) {
  if (count == 1) return path;
  if (path.filename().empty()) return path / fmt::format("{}", index + 1) / "";
  return path.parent_path() /
         fmt::format("{}-{}{}", path.stem().string(), index + 1, path.extension().string());
}

}  // namespace

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

  PromptTags tags(o, base);
  std::vector<std::string> prompts = all_prompts(o);
  const bool typed = !prompts.empty();  // tags of the prompt of --from are taken out already, or are text
  if (prompts.empty() && !o.from.empty()) prompts = {base.request.prompt};
  require(!prompts.empty(), "a prompt is needed: tachyscope generate \"a red circle moves right\"");
  std::vector<std::string> seeds = o.seeds;
  if (seeds.empty()) seeds = {fmt::format("{}", base.request.seed)};
  const size_t count = prompts.size() * seeds.size();
  require(o.profile.empty() || count == 1, "--profile takes one prompt and one seed, got {} videos", count);
  require(o.save_latents.empty() || count == 1, "--save-latents takes one prompt and one seed, got {} videos",
          count);

  fs::path output = as_output(o.output);
  if (output.empty() && fs::path(o.from).extension() == ".resume") output = StateFile::output_of(o.from);
  std::vector<Job> jobs;
  std::set<uint64_t> drawn;
  for (const std::string& prompt : prompts)
    for (const std::string& text : seeds) {
      Job job{base, {}, !output.empty()};
      job.settings.request.prompt = prompt;
      if (typed) tags.take(job.settings.request);
      const std::string& words = job.settings.request.prompt;
      if (job.named) job.output = numbered(output, jobs.size(), count);
      std::optional<uint64_t> seed = seed_in(text);
      job.drawn = !seed;
      if (!seed && o.resume) seed = seed_drawn_before(job.output, words, drawn);
      if (!seed) seed = draw_seed();
      if (job.drawn) drawn.insert(*seed);
      job.settings.request.seed = *seed;
      if (!job.named) job.output = default_name(words, *seed);
      jobs.push_back(std::move(job));
    }
  return jobs;
}

}  // namespace tachy::cli
