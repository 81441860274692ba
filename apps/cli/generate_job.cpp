#include "generate_job.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "api/fields.h"
#include "base/error.h"
#include "base/notice.h"
#include "field_options.h"
#include "interrupt.h"
#include "job_report.h"
#include "jobs/job_store.h"
#include "jobs/output_name.h"
#include "jobs/state_file.h"
#include "prompt_tags.h"
#include "seed.h"

namespace tachy::cli {

namespace fs = std::filesystem;

namespace {

// clip.mp4 becomes clip-2.mp4 when a run makes several.
fs::path numbered(const fs::path& path, size_t index, size_t count) {
  if (count == 1) return path;
  if (path.filename().empty()) return path / fmt::format("{}", index + 1) / "";
  return path.parent_path() /
         fmt::format("{}-{}{}", path.stem().string(), index + 1, path.extension().string());
}

}  // namespace

std::vector<jobs::JobSpec> make_jobs(const GenerateOptions& o) {
  jobs::RunSettings base;
  if (!o.from.empty()) base = jobs::read_settings(o.from);
  // The parts of an earlier run's model do not belong to another model.
  if (!o.model.empty()) base.model = o.model, base.parts.clear();
  for (const ModelPart& part : model_parts())
    if (const std::string& path = o.engine.*part.option; !path.empty()) base.parts[part.name] = path;
  for (const auto& [name, path] : o.inputs)
    if (!path.empty()) base.inputs[name] = {path, ""};
  o.apply(base.request);
  jobs::load_inputs(base);

  if (o.stream && o.from.empty()) jobs::settle_stream(base.request, o.gives("block"));

  PromptTags tags(o, base);
  std::vector<std::string> prompts = all_prompts(o);
  const bool typed = !prompts.empty();  // tags in the prompt of --from have already been removed, or are text
  if (prompts.empty() && !o.from.empty()) prompts = {base.request.prompt};
  require(!prompts.empty(), "a prompt is needed: tachyscope generate \"a red circle moves right\"");
  std::vector<std::string> seeds = o.seeds;
  if (seeds.empty()) seeds = {fmt::format("{}", base.request.seed)};
  const size_t count = prompts.size() * seeds.size();
  require(o.save_latents.empty() || count == 1, "--save-latents takes one prompt and one seed, got {} videos",
          count);

  fs::path output = jobs::as_output(o.output);
  if (output.empty() && fs::path(o.from).extension() == ".resume")
    output = jobs::StateFile::output_of(o.from);
  jobs::JobSpec base_job{.settings = base,
                         .from = o.from,
                         .named = !output.empty(),
                         .crf = o.crf,
                         .encode_speed = o.encode_speed,
                         .streamed = o.stream,
                         .resume = o.resume,
                         .state_every = o.state_every,
                         .preview = o.preview,
                         .save_latents = o.save_latents,
                         .profile = o.profile};
  std::vector<jobs::JobSpec> out;
  std::set<uint64_t> drawn;
  for (const std::string& prompt : prompts)
    for (const std::string& text : seeds) {
      jobs::JobSpec job = base_job;
      job.settings.request.prompt = prompt;
      if (typed) tags.take(job.settings.request);
      const std::string& words = job.settings.request.prompt;
      if (job.named) job.output = numbered(output, out.size(), count);
      std::optional<uint64_t> seed = seed_in(text);
      job.drawn = !seed;
      if (!seed && o.resume) seed = jobs::seed_drawn_before(job.output, words, drawn);
      if (!seed) seed = draw_seed();
      if (job.drawn) drawn.insert(*seed);
      job.settings.request.seed = *seed;
      if (!job.named) job.output = jobs::default_name(words, *seed);
      out.push_back(std::move(job));
    }
  return out;
}

void TerminalSink::event(const nlohmann::json& event, const std::string& text) {
  if (device_.empty()) return report(options_, event, text);
  nlohmann::json named = event;
  named["device"] = device_;
  report(options_, named, device_ + ": " + text);
}
void TerminalSink::notice(const std::string& text) {
  say_line(device_.empty() ? text : device_ + ": " + text);
}
void TerminalSink::can_go_on(const std::string& text) { set_cancel_note(spelled(text)); }

}  // namespace tachy::cli
