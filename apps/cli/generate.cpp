// `tachyscope generate`: turns its options into one job for each video, and opens the device for them.
#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/fields.h"
#include "api/predict.h"
#include "base/env.h"
#include "base/field.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/notice.h"
#include "commands.h"
#include "crew.h"
#include "generate_job.h"
#include "job_report.h"
#include "jobs/job_runner.h"
#include "jobs/job_store.h"
#include "jobs/open_engine.h"
#include "on_cards.h"
#include "plan_report.h"
#include "profile_file.h"

namespace tachy::cli {
namespace {

constexpr double kLongRunSeconds = 3600;

// Returns the engine's options as they were given.
EngineOptions engine_options(const GenerateOptions& o, bool several,
                             const std::shared_ptr<distributed::TcpCrew>& crew) {
  EngineOptions options = o.engine;
  options.crew = crew;
  options.keep_loaded = several;
  options.graphs = !o.no_graph, options.arena = !o.no_arena;
  if (!o.max_vram.empty()) options.max_vram = naming("`max_vram`", [&] { return parse_bytes(o.max_vram); });
  return options;
}

// Returns how many GPUs a plan is for that need not be here.
int absent_gpus(const std::string& gpus) {
  int count = gpus.empty() ? 1 : 0;
  const auto [end, error] = std::from_chars(gpus.data(), gpus.data() + gpus.size(), count);
  require(
      gpus.empty() || (error == std::errc() && end == gpus.data() + gpus.size() && kRanksRange.holds(count)),
      "`gpus`: with `gpu` expected how many there are, {}, got '{}'", kRanksRange.text(), gpus);
  return count;
}

// Plans for a GPU that need not be here: no engine is opened.
int predict(const GenerateOptions& o, const std::vector<jobs::JobSpec>& all) {
  require(o.plan, "`gpu`: {} can only be planned for, since it need not be in this machine; add --plan",
          o.gpu);
  require(o.engine.device.empty(), "`gpu`: it replaces --device; leave one of them out");
  for (const jobs::JobSpec& job : all) {
    AbsentGpu gpu{.name = o.gpu, .count = absent_gpus(o.engine.gpus), .parallel = o.engine.parallel};
    if (!o.max_vram.empty()) gpu.max_vram = naming("`max_vram`", [&] { return parse_bytes(o.max_vram); });
    const PartPaths parts = part_paths(jobs::with_parts(o.engine, job.settings));
    show_predicted(tachy::predict(jobs::model_path(job.settings), parts, gpu, job.settings.request), o.json);
  }
  return 0;
}

// Makes the video of one job, and its profile if it is the last one, which finds everything loaded. With --plan it only reports what that would take. `known` is a
// request that open_engine has prepared; it may be null.
// Without other processes, `crew` is null.
void run(const GenerateOptions& o, Engine& engine, const jobs::JobSpec& job, const PreparedRequest* known,
         jobs::JobStore& store, TerminalSink& sink, distributed::TcpCrew* crew, bool last) {
  jobs::JobRunner runner(engine, store, sink, &g_cancel);
  const PreparedRequest prepared = known ? *known : runner.prepare(job);
  if (o.plan) return show_plan(prepared.plan(), prepared.request(), o.json);
  if (crew) compare_in_crew(*crew, engine, job, prepared);
  if (crew && !crew->leads()) {
    engine.check_memory(prepared.plan());
    engine.generate(prepared, {.cancel = &g_cancel});
    return;
  }
  if (prepared.plan().seconds > kLongRunSeconds)
    warn("this run will take about {} on this machine; ctrl-C stops it cleanly",
         human_seconds(prepared.plan().seconds));
  Watchers watchers(last && !o.profile.empty(), o.nvtx, engine.device() != "cpu");
  const bool made = runner.run(job, prepared, watchers.all());
  if (!made && crew) crew->skip();
  if (!made || !watchers.profile()) return;
  const ProfileWords words = write_profile(o.profile, *watchers.profile());
  report(o, parse_json_line(words.json), words.text);
}

// Returns the devices that each make whole videos: the GPUs that were named, if there is a video for each and nobody
// asked how they share one. Nothing is then exchanged. Otherwise it is empty.
std::vector<std::string> one_video_each(const GenerateOptions& o, size_t videos) {
  if (o.engine.gpus.empty() || videos < 2) return {};
  check_ranks(o.engine);
  if (!parallel_of(o.engine).automatic()) return {};
  std::vector<std::string> out = devices_of_gpus(o.engine.gpus, o.engine.device);
  if (out.size() < 2 || videos < out.size()) out.clear();
  return out;
}

// Makes all videos, one on each device at a time.
void run_on(const std::vector<std::string>& devices, const GenerateOptions& o,
            const std::vector<jobs::JobSpec>& all) {
  report(o, {{"event", "cards"}, {"devices", devices}, {"videos", all.size()}},
         fmt::format("{} videos on {} GPUs, one on each at a time", all.size(), devices.size()));
  jobs::JobStore store(&g_cancel);
  std::vector<std::optional<jobs::OpenedEngine>> opened(devices.size());
  on_cards(o.plan ? 1 : devices.size(), all.size(), [&](size_t card, size_t i) {
    TerminalSink sink(o, devices[card]);
    if (!opened[card]) {
      EngineOptions options = engine_options(o, true, nullptr);
      options.device = devices[card], options.gpus.clear();
      opened[card] = jobs::open_engine(all[i], options, sink);
    }
    run(o, opened[card]->engine, all[i], nullptr, store, sink, nullptr, i + 1 == all.size());
  });
}

// Makes all videos, one after the other unless several GPUs make one each.
void run(const GenerateOptions& o, std::vector<jobs::JobSpec>& all,
         const std::shared_ptr<distributed::TcpCrew>& crew) try {
  if (crew && !o.plan) join_crew(*crew, all);
  if (const auto devices = one_video_each(o, all.size()); !devices.empty()) return run_on(devices, o, all);
  TerminalSink sink(o);
  jobs::OpenedEngine opened = jobs::open_engine(all.front(), engine_options(o, all.size() > 1, crew), sink);
  jobs::JobStore store(&g_cancel);
  for (const jobs::JobSpec& job : all) {
    const bool known = &job == &all.front() && opened.first;
    TerminalSink of_job(o);
    run(o, opened.engine, job, known ? &*opened.first : nullptr, store, of_job, crew.get(),
        &job == &all.back());
  }
} catch (const Error& e) {
  if (crew) crew->end(e);
  throw;
}

int run(GenerateOptions& o) {
  o.settle_pairs();
  require(o.state_every >= 0, "--state-every: expected 0 or more seconds, got {}", o.state_every);
  const std::shared_ptr<distributed::TcpCrew> crew = launched_crew(o);
  if (crew && !crew->leads()) o.quiet = true;
  set_quiet(o.quiet);
  std::vector<jobs::JobSpec> all = make_jobs(o);
  if (!o.gpu.empty()) return predict(o, all);
  // A picture of a landscape also becomes a video, and a user who gave one by mistake would wait for it.
  if (all.front().settings.request.speech && !o.plan)
    say_line("note: the photo is not checked for a face; any picture is accepted");
  if (crew && o.plan && !crew->leads()) return 0;  // rank 0 shows the plan of all
  run(o, all, crew);
  return 0;
}

// `talk` is `generate` with a photo and speech, and needs nothing else.
int run_talk(GenerateOptions& o) {
  set_spelling([](std::string_view field) -> std::string_view {
    return field == "image" ? "--photo" : option_of(field);  // as its help has it
  });
  o.settle_pairs();
  if (o.from.empty())
    for (const char* needed : {"image", "speech"})
      require(!o.inputs[needed].empty(),
              "`{}`: a talking photo needs one: tachyscope talk {} me.jpg {} speech.wav", needed, "--photo",
              "--audio");
  if (o.prompts.empty() && o.prompt_file.empty() && o.from.empty()) o.prompts = {"a person is talking"};
  return run(o);
}

}  // namespace

Command add_talk(CommandLine& line) {
  CommandOptions sub = line.add_command("talk", "make a photo say what is said in a sound file");
  auto options = std::make_shared<GenerateOptions>();
  register_options(sub, *options);
  sub.short_help({"--photo",          "--audio", "--prompt", "--model",  "--infinitetalk", "--wav2vec2",
                  "--output",         "--size",  "--frames", "--preset", "--steps",        "--guidance",
                  "--audio-guidance", "--seed",  "--lora",   "--level",  "--device",       "--from",
                  "--resume",         "--plan",  "--quiet"});
  sub.footer(
      "The options are those of generate. The default prompt is \"a person is talking\"; the default model "
      "is\n"
      "the one that ships with Tachyscope.\n"
      "Examples:\n"
      "  tachyscope talk --photo me.jpg --audio speech.wav -o talk.mp4\n"
      "  tachyscope talk --photo me.jpg --audio speech.mp3 --model Wan2.1-I2V-14B-480P --infinitetalk "
      "infinitetalk.safetensors\n"
      "    --wav2vec2 chinese-wav2vec2-base --lora lightx2v.safetensors --preset talk-3 --size 1024x1024 -o "
      "talk.mp4");
  return [options] { return run_talk(*options); };
}

Command add_generate(CommandLine& line) {
  CommandOptions sub = line.add_command("generate", "make a video from a prompt");
  auto options = std::make_shared<GenerateOptions>();
  register_options(sub, *options);
  sub.short_help({"--prompt",   "--negative-prompt",
                  "--model",    "--output",
                  "--image",    "--size",
                  "--frames",   "--fps",
                  "--preset",   "--steps",
                  "--guidance", "--seed",
                  "--lora",     "--level",
                  "--device",   "--gpus",
                  "--max-vram", "--from",
                  "--resume",   "--plan",
                  "--quiet"});
  sub.footer(
      "Examples:\n"
      "  tachyscope generate \"a red circle moves right\"\n"
      "  tachyscope generate \"a cat on a skateboard\" --model Wan2.1-T2V-1.3B-Diffusers --size 832x480 "
      "--seed 7 -o cat.mp4\n"
      "  tachyscope generate \"a cat\" --model wan2.1_t2v_1.3B_bf16.safetensors --vae "
      "wan_2.1_vae.safetensors\n"
      "    --text-encoder umt5_xxl_fp8_e4m3fn_scaled.safetensors\n"
      "  tachyscope generate --from cat.json -o again.mp4      (the same frames, bit for bit)\n"
      "  tachyscope generate \"a cat\" --model Wan2.1-T2V-14B --plan   (print memory and time, and stop)\n"
      "  tachyscope generate \"she smiles\" --image photo.jpg --model Wan2.2-TI2V-5B-Diffusers --size "
      "1280x704\n"
      "  tachyscope generate \"a cat\" -o cat.mp4 --resume       (continue after an interruption)\n"
      "  tachyscope generate --from cat.mp4.resume --resume    (the same without typing it all again)");
  return [options] { return run(*options); };
}

}  // namespace tachy::cli
