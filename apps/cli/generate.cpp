// `tachyscope generate`: from its options to a job a video, and the device that they run on.
#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "api/fields.h"
#include "api/predict.h"
#include "base/log.h"
#include "base/notice.h"
#include "commands.h"
#include "generate_job.h"
#include "plan_report.h"

namespace tachy::cli {
namespace {

namespace fs = std::filesystem;

// The kind of device that a run was on, for it to be repeated or gone on with.
std::string device_again(const std::string& from, const std::string& kind) {
  std::string why;
  check(kind == "cpu" || gpu_there(&why), ErrorCode::unsupported,
        "--from: {} comes from a run on a GPU, and there is none here ({}); --device cpu repeats it on the "
        "CPU, but then its frames are not the same to the bit",
        from, why);
  return kind;
}

// The model that ships for a job that names none.
const char* ships(const Job& job) { return job.settings.request.speech ? "talker" : "sprites"; }

// On the device that was asked for; the settings of --from ask for the kind that they come from, since
// another one would not give the same frames. A GPU that nobody named and that has no room for the run gives
// way to the CPU.
struct Opened {
  Engine engine;
  std::optional<PreparedRequest> first;  // the first job's, where the choice of the device took its plan
};
Opened open_engine(const GenerateOptions& o, const std::vector<Job>& jobs) {
  const std::string& model = jobs.front().settings.model;
  const bool again = o.engine.device.empty() && !jobs.front().settings.device.empty();  // of --from
  EngineOptions options = o.engine;
  options.keep_loaded = jobs.size() > 1;
  for (const auto& [part, path] : jobs.front().settings.parts)
    options.*std::get<std::string EngineOptions::*>(find_field(engine_fields(), part)->member) = path;
  options.device =
      again ? device_again(o.from, jobs.front().settings.device) : choose_device(o.engine.device);
  options.graphs = !o.no_graph, options.arena = !o.no_arena;
  if (!o.max_vram.empty()) options.max_vram = naming("`max_vram`", [&] { return parse_bytes(o.max_vram); });
  const auto open = [&] {
    return naming("`model`", [&] {
      return Engine(model.empty() ? shipped_model(ships(jobs.front())) : fs::path(model), options);
    });
  };
  Engine engine = open();
  if (!o.max_vram.empty() || options.device == "cpu" || again || !is_automatic(o.engine.device))
    return {std::move(engine), {}};
  try {
    PreparedRequest first = engine.prepare(jobs.front().settings.request);
    engine.check_memory(first.plan());
    return {std::move(engine), std::move(first)};
  } catch (const Error& e) {
    if (e.code() != ErrorCode::out_of_memory) throw;
    say_line(fmt::format("running on the CPU, since the GPU has too little memory: {}", e.message()));
    options.device = "cpu";
    return {open(), {}};
  }
}

// A plan for a GPU that need not be here: no engine is opened.
int predict(const GenerateOptions& o, const std::vector<Job>& jobs) {
  require(o.plan, "`gpu`: {} can only be planned for, since it need not be in this machine; add --plan",
          o.gpu);
  require(o.engine.device.empty(), "`gpu`: it replaces --device; leave one of them out");
  for (const Job& job : jobs) {
    EngineOptions parts = o.engine;
    for (const auto& [part, path] : job.settings.parts)
      parts.*std::get<std::string EngineOptions::*>(find_field(engine_fields(), part)->member) = path;
    TimePlanInput in{
        .model = job.settings.model.empty() ? shipped_model(ships(job)) : fs::path(job.settings.model),
        .parts = part_paths(parts),
        .gpu = o.gpu};
    if (!o.max_vram.empty()) in.max_vram = naming("`max_vram`", [&] { return parse_bytes(o.max_vram); });
    show_time_plan(plan_time(in, job.settings.request), o.json);
  }
  return 0;
}

// What streams without saying how is a video of Self-Forcing's kind.
void settle_stream(GenerateOptions& o) {
  if (!o.stream || !o.from.empty()) return;
  const auto given = [&](const char* field) {
    return std::visit([](const auto& value) { return value.has_value(); }, o.fields.at(field));
  };
  if (!given("preset") && !given("block") && !given("sampler") && o.inputs["image"].empty())
    o.fields.at("preset") = std::optional<std::string>("self-forcing-4");
}

int run(GenerateOptions& o) {
  o.settle_pairs();
  settle_stream(o);
  require(o.state_every >= 0, "--state-every: expected 0 or more seconds, got {}", o.state_every);
  set_quiet(o.quiet);
  const std::vector<Job> jobs = make_jobs(o);
  if (!o.gpu.empty()) return predict(o, jobs);
  // Of a landscape a video is made as well, and whoever gave one by mistake would wait for it.
  if (jobs.front().settings.request.speech && !o.plan)
    say_line("note: the photo is not checked for a face; any picture is accepted");
  Opened opened = open_engine(o, jobs);
  std::set<fs::path> made;
  for (const Job& job : jobs) {
    const bool known = &job == &jobs.front() && opened.first;
    run_job(opened.engine, o, job, known ? *opened.first : opened.engine.prepare(job.settings.request), made);
  }
  return 0;
}

// `talk` is `generate` of a photo and speech: what is said with it is enough.
int run_talk(GenerateOptions& o) {
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
  sub.short_help({"--prompt", "--negative-prompt", "--model", "--output",   "--image", "--size", "--frames",
                  "--fps",    "--preset",          "--steps", "--guidance", "--seed",  "--lora", "--level",
                  "--device", "--max-vram",        "--from",  "--resume",   "--plan",  "--quiet"});
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
