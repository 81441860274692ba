// `tachyscope world` turns a recorded script of keys and mouse into a video (world_actions.h). Without the
// name of a video it serves a page (world_page.cpp).

#include "world_command.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/fields.h"
#include "base/env.h"
#include "base/json_text.h"
#include "base/log.h"
#include "commands.h"
#include "gauge_options.h"
#include "interrupt.h"
#include "jobs/claimed_output.h"
#include "jobs/side_files.h"
#include "lora_tags.h"
#include "media/video/background_writer.h"
#include "profile_file.h"
#include "seed.h"
#include "status_line.h"
#include "world_actions.h"
#include "world_settings.h"

namespace tachy::cli {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

// Returns the number of frames of the video: the script's, or fewer if that is requested.
int64_t frames_of(const WorldCommandOptions& o, const WorldScript& script, double fps) {
  require(!o.frames || !o.seconds, "--seconds: --frames says the length already; leave one of them out");
  int64_t asked = o.frames.value_or(0);
  if (o.seconds) asked = std::max<int64_t>(1, std::llround(*o.seconds * fps));
  const int64_t written = script.frames();
  const char* const option = o.seconds ? "--seconds" : "--frames";
  require(asked > 0 || written > 0,
          "--frames: say how long the video is to be: give --frames, --seconds or a script (--actions)");
  require(written == 0 || asked <= written, "{}: {} frames are asked for, but the actions in {} end after {}",
          option, asked, o.actions, written);
  return asked > 0 ? asked : written;
}

// Makes a signal stop the world as well, even in the middle of a block.
class StopsOnSignal {
 public:
  explicit StopsOnSignal(World& world)
      : thread_([&world](const std::stop_token& ended) {
          while (!ended.stop_requested()) {
            if (g_cancel) world.stop();
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
          }
        }) {}

 private:
  std::jthread thread_;
};

// Makes blocks until the video is as long as it should be; any further frames of the last block are left out.
void play(World& world, const WorldCommandOptions& o, const WorldScript& script, int64_t frames,
          BackgroundWriter& writer) {
  StatusLine line(!o.json && !o.quiet);
  line.show(fmt::format("the world begins: 0 of {} frames", frames));
  const auto begin = Clock::now();
  for (int64_t done = 0; done < frames;) {
    const int64_t count = done == 0 ? world.info().first_block_frames : world.info().block_frames;
    world.act(action_of_block(script, done, count));
    const WorldBlock block = world.next_block([&](const RgbImage& image, int64_t index) {
      if (index < frames)
        writer.write({image.rgb.data(), image.width, image.height, int64_t{image.width} * 3});
    });
    done = block.first_frame + block.frames;
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    const int64_t made = std::min(done, frames);
    const double rate = static_cast<double>(made) / std::max(seconds, 1e-9);
    if (o.json)
      report_world(o,
                   {{"event", "block"},
                    {"index", block.index},
                    {"first_frame", block.first_frame},
                    {"frames", block.frames},
                    {"first_frame_seconds", block.first_frame_s},
                    {"seconds", block.seconds}},
                   "");
    line.show(fmt::format("{} of {} frames ({} %), {:.1f} a second, {} left", made, frames,
                          made * 100 / frames, rate,
                          human_seconds(static_cast<double>(frames - made) / rate)));
  }
}

int run_script(const WorldCommandOptions& o) {
  const auto begin = Clock::now();
  const Engine engine = open_world_engine(o);
  World world = open_world(engine, o);
  const WorldInfo& info = world.info();
  WorldScript script;
  if (!o.actions.empty()) script = naming("--actions", [&] { return read_world_script(o.actions, info); });
  const double fps = o.fps.value_or(script.fps.value_or(info.fps));
  const int64_t frames = frames_of(o, script, fps);
  const WorldStart start = world_start(o, world);
  const VideoOptions video{.fps = fps,
                           .crf = o.crf,
                           .comment = json_line(world_settings(o, world, script, frames, fps)),
                           .speed = o.encode_speed,
                           .expected_frames = frames,
                           .streamed = o.stream,
                           .cancel = &g_cancel};
  const jobs::ClaimedOutput claimed =
      naming("--output", [&] { return jobs::ClaimedOutput(o.output, o.stream); });
  jobs::SideFiles side(o.output);
  side.profile(o.profile);
  Watchers watchers(!o.profile.empty(), o.nvtx, world.device() != "cpu");
  if (watchers.all()) world.watch(watchers.all());
  BackgroundWriter writer(
      naming("--output", [&] { return VideoWriter::open(o.output, info.width, info.height, video); }),
      &g_cancel, watchers.all());
  report_world(o,
               {{"event", "world"},
                {"kind", info.kind},
                {"device", world.device()},
                {"peak_bytes", info.peak_bytes},
                {"width", info.width},
                {"height", info.height},
                {"frames", frames},
                {"fps", fps}},
               "");
  const StopsOnSignal stops(world);
  world.start(start);
  play(world, o, script, frames, writer);
  writer.finish();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  report_world(
      o,
      {{"event", "done"}, {"output", o.output}, {"frames", frames}, {"seconds", seconds}, {"seed", o.seed}},
      fmt::format("{} ({} of {}x{}, seed {}, {})", o.output, count_of(frames, "frame"), info.width,
                  info.height, o.seed, human_seconds(seconds)));
  if (watchers.all()) world.watch(nullptr);
  if (!watchers.profile()) return 0;
  const ProfileWords words = write_profile(o.profile, *watchers.profile());
  report_world(o, parse_json_line(words.json), words.text);
  return 0;
}

int run_world(const WorldCommandOptions& o) {
  set_quiet(o.quiet);
  require(!o.seconds || (*o.seconds > 0 && *o.seconds <= 1e7),
          "--seconds: expected above 0 to 10000000, got {}", o.seconds.value_or(0));
  if (o.fps) check_range("fps", *o.fps, Range{.least = 0.1, .most = 240});
  require(!o.frames || *o.frames >= 1, "--frames: expected at least 1, got {}", o.frames.value_or(0));
  refuse_lora_tags(o.prompt, "--prompt: a world takes no LoRA");
  page_options(o);
  if (o.output.empty()) return run_world_page(o);
  require(!o.host && !o.port && o.token.empty(),
          "--output: it plays a script and serves no page; leave out --host, --port and --token");
  naming("--output", [&] { video_format(o.output); });
  return run_script(o);
}

}  // namespace

Command add_world(CommandLine& line) {
  CommandOptions sub =
      line.add_command("world", "walk through a world with keys and mouse, in a page or by a script");
  auto o = std::make_shared<WorldCommandOptions>();
  auto seed = std::make_shared<std::string>("0");
  register_world_options(sub, *o, *seed);
  sub.short_help({"--prompt", "--model", "--image", "--actions", "--output", "--port", "--frames",
                  "--seconds", "--fps", "--size", "--seed", "--steps", "--level", "--device", "--max-vram",
                  "--quiet"});
  sub.footer(
      "In a page, a block follows the keys held down when it begins; with a script, it follows the action\n"
      "that covers most of its frames. The same script and seed give the same bits.\n"
      "Examples:\n"
      "  tachyscope world --image start.png        # a page: http://127.0.0.1:8190/; arrows, keys and mouse\n"
      "  tachyscope world --image start.png --actions script.json -o walk.mp4\n"
      "  tachyscope world --model Matrix-Game-2.0 --image start.png --actions script.json -o walk.mp4 "
      "--device cuda\n"
      "  tachyscope world \"a cat walks\" --model Self-Forcing-1.3B --seconds 10 -o cat.mp4\n"
      "script.json: {\"fps\": 25, \"actions\": [{\"frames\": 48, \"keys\": [\"W\"], \"mouse\": [0, 0.1]}, "
      "{\"frames\": 24}]}");
  return [o, seed] {
    const std::optional<uint64_t> given = seed_in(*seed);
    o->seed = given ? *given : draw_seed();
    if (!given) report_world(*o, {{"event", "seed"}, {"seed", o->seed}}, fmt::format("seed {}", o->seed));
    return run_world(*o);
  };
}

}  // namespace tachy::cli
