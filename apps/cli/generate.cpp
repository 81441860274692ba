// `tachyscope generate`: options to requests, frames to files, the settings of each run beside its output.

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/env.h"
#include "base/log.h"
#include "base/notice.h"
#include "commands.h"
#include "generate_options.h"
#include "interrupt.h"
#include "media/background_writer.h"
#include "media/files.h"
#include "picks.h"
#include "progress.h"
#include "settings.h"
#include "state_file.h"
#include "status_line.h"

namespace tachy::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kLongRunSeconds = 3600;
constexpr uint64_t kQueueWorthALine = 16 << 20;  // a smaller one is lost among the plan's figures

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

fs::path settings_path(const fs::path& output) {
  if (output.filename().empty()) return output / "settings.json";
  fs::path path = output;
  return path.replace_extension(".json");
}

// The most that frames which wait for the encoder take, beside what the plan counts.
uint64_t queue_bytes(const VideoRequest& r) {
  const auto bytes = uint64_t(*r.frames) * uint64_t(*r.width) * uint64_t(*r.height) * 3;
  return std::min<uint64_t>(bytes, BackgroundWriter::kQueueBytes);
}

json plan_json(const VideoPlan& plan, uint64_t queue) {
  json stages = json::array();
  for (const StagePlan& s : plan.stages)
    stages.push_back({{"stage", s.name},
                      {"mapped_bytes", s.mapped_bytes},
                      {"weight_bytes", s.weight_bytes},
                      {"arena_bytes", s.arena_bytes},
                      {"flops", s.flops},
                      {"seconds", s.seconds},
                      {"blocks", s.blocks},
                      {"streamed_blocks", s.streamed},
                      {"host_bytes", s.host_bytes},
                      {"ops", picks_json(s)}});
  return {{"event", "plan"},
          {"stages", stages},
          {"shared_bytes", plan.shared_bytes},
          {"peak_bytes", plan.peak_bytes},
          {"host_bytes", plan.host_bytes},
          {"budget_bytes", plan.budget_bytes},
          {"frame_queue_bytes", queue},
          {"seconds", plan.seconds}};
}

void print_plan(const VideoPlan& plan, uint64_t queue) {
  fmt::print("{:<10}{:>14}{:>14}{:>14}{:>14}{:>12}\n", "stage", "file mapped", "in memory", "activations",
             "TFLOP", "about");
  for (const StagePlan& s : plan.stages)
    fmt::print("{:<10}{:>14}{:>14}{:>14}{:>14.3f}{:>12}\n", s.name, human_bytes(s.mapped_bytes),
               human_bytes(s.weight_bytes), human_bytes(s.arena_bytes), s.flops / 1e12,
               human_seconds(s.seconds));
  for (const StagePlan& s : plan.stages)
    if (s.streamed > 0)
      fmt::print("{}: {} of {} blocks ({}) stay in host memory and pass through the GPU in every pass\n",
                 s.name, s.streamed, s.blocks, human_bytes(s.host_bytes));
  print_picks(plan.stages);
  if (queue >= kQueueWorthALine)
    fmt::print("host memory beside that: up to {} of frames that wait for the encoder\n", human_bytes(queue));
  if (plan.budget_bytes > 0)
    fmt::print("peak {} of the GPU's memory beside its libraries, of {} ({}), about {} on this machine\n",
               human_bytes(plan.peak_bytes), human_bytes(plan.budget_bytes), plan.budget,
               human_seconds(plan.seconds));
  if (!plan.would_fit.empty()) fmt::print("this does not fit; {} would\n", plan.would_fit);
  if (plan.budget_bytes == 0)
    fmt::print("peak {} beside the mapped file, about {} on this machine\n", human_bytes(plan.peak_bytes),
               human_seconds(plan.seconds));
}

// A line about the run: JSON with --json, nothing with --quiet.
void report(const GenerateOptions& o, const json& event, const std::string& text) {
  if (o.json)
    fmt::print("{}\n", event.dump());
  else if (!o.quiet)
    fmt::print("{}\n", text);
  std::fflush(stdout);
}

// A finished file or none.
void write_text(const fs::path& path, const std::string& text) {
  PartFile file(path);
  file.write({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  file.publish();
}

struct Job {
  RunSettings settings;
  fs::path output;
};

std::vector<Job> make_jobs(const GenerateOptions& o) {
  RunSettings base;
  if (!o.from.empty()) base = read_settings(o.from);
  if (!o.model.empty()) base.model = o.model;
  if (!o.init_latents.empty()) base.init_latents = {o.init_latents, ""};
  if (!o.image.empty()) base.image = {o.image, ""};
  if (!o.last_image.empty()) base.last_image = {o.last_image, ""};
  if (!o.image_embeds.empty()) base.image_embeds = {o.image_embeds, ""};
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

// Whether an earlier run of the same settings has finished this output: its settings are written last.
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

// diffusers stretches, and so do we; but nobody should find out from the video.
void warn_of_stretching(const VideoRequest& given, int width, int height) {
  for (const Picture* p : {given.image.get(), given.last_image.get()}) {
    if (!p || given.image_fit != "stretch") continue;
    const double shape = double(p->width) / p->height, video = double(width) / height;
    if (std::max(shape / video, video / shape) > 1.05)
      warn(
          "the picture of {}x{} is stretched to {}x{}, as diffusers does it; --image-fit crop keeps its "
          "shape",
          p->width, p->height, width, height);
  }
}

void run_job(Engine& engine, const GenerateOptions& o, const Job& job, const PreparedRequest& prepared) {
  const auto start = std::chrono::steady_clock::now();
  const VideoPlan& plan = prepared.plan();
  const VideoRequest& filled = prepared.request();
  if (o.plan) {
    const uint64_t queue = queue_bytes(filled);
    if (o.json)
      fmt::print("{}\n", plan_json(plan, queue).dump());
    else
      print_plan(plan, queue);
    return;
  }
  engine.check_memory(plan);
  if (plan.seconds > kLongRunSeconds)
    warn("this run will take about {} on this machine; ctrl-C stops it cleanly", human_seconds(plan.seconds));

  // The settings with every default filled in go into the file, so that the run can be repeated from it.
  RunSettings run = job.settings;
  run.request = filled, run.device = engine.device() == "cpu" ? "cpu" : "cuda";
  const json settings = to_json(run);
  warn_of_stretching(job.settings.request, *filled.width, *filled.height);

  StateFile state(job.output, settings, o.state_every, [&] { return engine.fingerprint(); });
  std::optional<RunState> resume;
  const auto going_on = [&] {
    return fmt::format(" (step {} is saved: the same command with --resume goes on from there)",
                       state.saved_step());
  };
  set_cancel_note("");
  if (o.resume) {
    resume = state.load();
    if (resume) set_cancel_note(going_on());
    if (!resume && is_complete(job.output, settings)) {
      report(o, {{"event", "complete"}, {"output", job.output.string()}},
             fmt::format("{} is complete already", job.output.string()));
      return;
    }
    report(o, {{"event", "resume"}, {"step", resume ? resume->step : 0}},
           resume ? fmt::format("going on after step {} ({})", resume->step, state.path().string())
                  : fmt::format("nothing to resume at {}: beginning anew", state.path().string()));
  } else if (state.exists()) {
    warn("{} is of an interrupted run, which --resume would go on with; this run begins anew",
         state.path().string());
  }
  std::optional<RunProfiler> profiler;
  if (!o.profile.empty()) profiler.emplace();

  VideoOptions video{.fps = *filled.fps,
                     .crf = o.crf,
                     .comment = settings.dump(),
                     .speed = o.encode_speed,
                     .expected_frames = *filled.frames,
                     .cancel = &g_cancel};
  BackgroundWriter writer(naming("--output",
                                 [&] {  // fails before hours are spent
                                   return VideoWriter::open(job.output, *filled.width, *filled.height, video);
                                 }),
                          &g_cancel);
  check_writable("--output", settings_path(job.output));
  check_writable("--save-latents", o.save_latents);
  check_writable("--preview", o.preview);
  check_writable("--profile", o.profile);
  ProgressLine progress(ProgressLine::choose(o.json, o.quiet));
  VideoCallbacks callbacks{.cancel = &g_cancel};
  callbacks.profiler = profiler ? &*profiler : nullptr;
  callbacks.progress = [&](const Progress& p) { progress.update(p); };
  callbacks.frame = [&](const RgbImage& image, int64_t) {
    writer.write({image.rgb.data(), image.width, image.height, int64_t{image.width} * 3});
  };
  if (!o.preview.empty())
    callbacks.preview = [&](const RgbImage& image, int) {
      write_png(o.preview, {image.rgb.data(), image.width, image.height, int64_t{image.width} * 3});
    };
  if (!o.save_latents.empty())
    callbacks.latents = [&](std::span<const float> values, std::span<const int64_t> shape) {
      write_latents(o.save_latents, values, shape);
    };
  callbacks.state = [&](const RunStateView& view) {
    state.step(view);
    if (state.saved_step() > 0) set_cancel_note(going_on());
  };
  ResolvedRequest done;
  try {
    done = engine.generate(prepared, callbacks, resume ? &*resume : nullptr);
    ProfileRange finishing(callbacks.profiler, "finish file", ProfileKind::output);
    writer.finish();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::cancelled || state.saved_step() == 0) throw;
    progress.clear();
    fail(ErrorCode::cancelled, "{}{}", e.message(), going_on());
  }
  write_text(settings_path(job.output), settings.dump(2) + "\n");
  state.remove();
  set_cancel_note("");
  progress.clear();

  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::string reused =
      done.steps_reused ? fmt::format(", {} of {} steps reused", done.steps_reused, *filled.steps) : "";
  report(o,
         {{"event", "done"},
          {"output", job.output.string()},
          {"seconds", seconds},
          {"steps_reused", done.steps_reused},
          {"settings", settings}},
         fmt::format("{} ({} frames of {}x{}, seed {}, {}{})", job.output.string(), *filled.frames,
                     *filled.width, *filled.height, filled.seed, human_seconds(seconds), reused));
  if (profiler) {
    const std::vector<ProfileEvent> events = profiler->all_events();
    write_text(o.profile, chrome_trace(events));
    report(o, json::parse(profile_json(summarise(events), summarise(events, true))),
           fmt::format("{}{}: open it in ui.perfetto.dev or chrome://tracing", profile_tables(events),
                       o.profile));
  }
}

// The kind of device that a run was on, for it to be repeated or gone on with.
std::string device_again(const std::string& from, const std::string& kind) {
  std::string why;
  check(kind == "cpu" || gpu_there(&why), ErrorCode::unsupported,
        "--from: {} is of a run on a GPU, and here is none ({}); --device cpu runs it without, and its "
        "frames are then "
        "not the same to the bit",
        from, why);
  return kind;
}

// On the device that was asked for; the settings of --from ask for the kind that they come from, since
// another one would not give the same frames. A GPU that nobody named and that has no room for the run gives
// way to the CPU.
struct Opened {
  Engine engine;
  std::optional<PreparedRequest> first;  // the first job's, where the choice of the device took its plan
};
Opened open_engine(const GenerateOptions& o, const std::vector<Job>& jobs) {
  const std::string& model = jobs.front().settings.model;
  const bool again = o.device.empty() && !jobs.front().settings.device.empty();  // of --from
  EngineOptions options{
      .threads = o.threads,
      .weights = o.weights,
      .keep_loaded = jobs.size() > 1,
      .device = again ? device_again(o.from, jobs.front().settings.device) : choose_device(o.device),
      .graphs = !o.no_graph,
      .text_cache = o.text_cache,
      .verify_upload = o.verify_upload};
  if (!o.max_vram.empty()) options.max_vram = naming("--max-vram", [&] { return parse_bytes(o.max_vram); });
  const auto open = [&] {
    return naming("--model",
                  [&] { return Engine(model.empty() ? shipped_model() : fs::path(model), options); });
  };
  Engine engine = open();
  if (!o.max_vram.empty() || options.device == "cpu" || again || !is_automatic(o.device))
    return {std::move(engine), {}};
  try {
    PreparedRequest first = engine.prepare(jobs.front().settings.request);
    engine.check_memory(first.plan());
    return {std::move(engine), std::move(first)};
  } catch (const Error& e) {
    if (e.code() != ErrorCode::out_of_memory) throw;
    say_line(fmt::format("running on the CPU, for the GPU has no room: {}", e.message()));
    options.device = "cpu";
    return {open(), {}};
  }
}

int run(const GenerateOptions& o) {
  require(o.state_every >= 0, "--state-every: expected 0 or more seconds, got {}", o.state_every);
  set_quiet(o.quiet);
  const std::vector<Job> jobs = make_jobs(o);
  Opened opened = open_engine(o, jobs);
  for (const Job& job : jobs) {
    const bool known = &job == &jobs.front() && opened.first;
    run_job(opened.engine, o, job, known ? *opened.first : opened.engine.prepare(job.settings.request));
  }
  return 0;
}

}  // namespace

Command add_generate(CommandLine& line) {
  CommandOptions sub = line.add_command("generate", "make a video from a prompt");
  auto options = std::make_shared<GenerateOptions>();
  register_options(sub, *options);
  sub.footer(
      "Examples:\n"
      "  tachyscope generate \"a red circle moves right\"\n"
      "  tachyscope generate \"a cat on a skateboard\" --model Wan2.1-T2V-1.3B-Diffusers --size 832x480 "
      "--seed 7 -o cat.mp4\n"
      "  tachyscope generate --from cat.json -o again.mp4        (the same frames, bit for bit)\n"
      "  tachyscope generate \"a cat\" --model Wan2.1-T2V-14B --plan  (memory and time, then stop)\n"
      "  tachyscope generate \"she smiles\" --image photo.jpg --model Wan2.2-TI2V-5B-Diffusers --size "
      "1280x704\n"
      "  tachyscope generate \"a cat\" -o cat.mp4 --resume              (after an interruption: the rest)\n"
      "  tachyscope generate --from cat.mp4.resume --resume            (the same without typing it again)");
  return [options] { return run(*options); };
}

}  // namespace tachy::cli
