// Times the blocks of a model that makes videos block by block: a session as a user has it, with a random
// picture or a prompt, and with keys that change from block to block.
#include <cmath>
#include <numeric>
#include <random>

#include "base/os/file.h"
#include "base/os/time.h"
#include "base/run_profiler.h"
#include "inspect/bench_lines.h"
#include "request/level.h"
#include "session/stage_clock.h"
#include "worlds/world_session.h"

namespace tachy {
namespace {

constexpr double kEnoughOfAWorld = 30;  // seconds of blocks, if their number was not given
constexpr int kLeastBlocks = 5, kProfiledBlocks = 10;

std::vector<float> random_values(size_t count, bool normal, uint32_t seed) {
  std::mt19937 gen(seed);
  std::vector<float> out(count);
  std::normal_distribution<float> bell;
  std::uniform_real_distribution<float> flat(-1, 1);
  for (float& v : out) v = normal ? bell(gen) : flat(gen);
  return out;
}

WorldInput random_input(WorldSession& session) {
  const ModelBundle& m = session.model();
  WorldInput in;
  if (!m.family->actions) {
    in.text = session.read_prompt("a prompt of ordinary length, for the memory of its keys and values");
    return in;
  }
  in.picture = random_values(
      static_cast<size_t>(session.config().width) * static_cast<size_t>(session.config().height) * 3, false,
      1);
  const auto rows = static_cast<size_t>(WorldRun::most_image_rows(m)),
             side = static_cast<size_t>(m.clip.image_size);
  if (m.image_encoder)
    in.clip_pixels = random_values(3 * side * side, true, 2);
  else
    in.image_embeds = random_values(rows * static_cast<size_t>(m.dit.image_dim), true, 2);
  return in;
}

class Blocks {
 public:
  Blocks(const BenchOptions& options, WorldSession& session) : options_(options), session_(session) {}

  struct Times {
    std::vector<double> whole_us, first_frame_us, cpu_us;
  };

  // Returns the time from a session's start to its first frame.
  double start(const WorldInput& input) {
    const double begin = monotonic_seconds();
    session_.start(input, 1);
    return 1e6 * (monotonic_seconds() - begin) + one().first_frame_us[0];
  }
  // Runs blocks until they see a full window, and on a GPU until each phase of the blocks has its graph,
  // which is captured in the phase's second run.
  void warm_up(bool graphs) {
    const WorldConfig& c = session_.config();
    const int64_t ring = std::max<int64_t>(1, c.window - c.sinks), phases = ring / std::gcd(ring, c.block);
    const int64_t until =
        1 + (c.window + c.block - 1) / c.block + (session_.gpu() && graphs ? 2 * phases : 0);
    for (; done_ < until;) {
      say(options_, fmt::format("model, block {} of {} that fill the window", done_ + 1, until));
      one();
    }
  }
  Times run(int most, bool all, const char* what) {
    Times out;
    const double begin = monotonic_seconds();
    for (int i = 0; i < most; ++i) {
      if (!all && i >= kLeastBlocks && monotonic_seconds() - begin > kEnoughOfAWorld) break;
      say(options_, fmt::format("model, {} {} of {}", what, i + 1, most));
      const Times block = one();
      out.whole_us.push_back(block.whole_us[0]), out.first_frame_us.push_back(block.first_frame_us[0]);
      out.cpu_us.push_back(block.cpu_us[0]);
    }
    return out;
  }
  void again() {
    session_.reset();
    done_ = 0;
  }

 private:
  Times one() {
    const WorldConfig& c = session_.config();
    WorldSession::Action held{std::vector<float>(c.keys.size()), std::vector<float>(c.mouse ? 2 : 0)};
    if (!held.keyboard.empty()) held.keyboard[static_cast<size_t>(done_) % held.keyboard.size()] = 1;
    if (c.mouse)
      held.mouse[1] = static_cast<float>(c.mouse_step * std::sin(0.7 * static_cast<double>(done_)));
    double first = 0, taken = 0;
    const double begin = monotonic_seconds(), cpu = os::processor_seconds();
    session_.next(
        [&] {
          taken = monotonic_seconds();
          return held;
        },
        [&](const RgbImage&, int64_t) {
          if (first == 0) first = monotonic_seconds() - taken;
        });
    const double end = monotonic_seconds();
    ++done_;
    return {{1e6 * (end - begin)}, {1e6 * first}, {1e6 * (os::processor_seconds() - cpu)}};
  }

  const BenchOptions& options_;
  WorldSession& session_;
  int64_t done_ = 0;
};

BenchBlocks describe(const BenchOptions& o, const WorldSession& session, const std::string& dtype,
                     int64_t blocks) {
  const WorldConfig& c = session.config();
  return {.kind = c.kind,
          .model = o.model.filename().empty() ? o.model.parent_path().filename().string()
                                              : o.model.filename().string(),
          .dtype = dtype,
          .width = c.width,
          .height = c.height,
          .steps = world_sampler(c, block_choices(o)).steps,
          .block = c.block,
          .frames = session.pixel_frames(c.first_block + c.block) - session.pixel_frames(c.first_block),
          .window = c.window,
          .blocks = blocks,
          .graphs = session.gpu() && o.graphs,
          .plan_bytes = session.plan().peak_bytes,
          .held_bytes = session.most_bytes()};
}

std::shared_ptr<Model> open_model(ModelBundle bundle, const BenchOptions& options, int threads) {
  const ModelOptions how{.threads = threads, .device = options.device, .graphs = options.graphs};
  return std::make_shared<Model>(std::move(bundle), how);
}

WorldSession::Options session_options(const BenchOptions& options) {
  return {.choices = block_choices(options),
          .level = options.level,
          .dtype = options.dtype,
          .vae_math = options.vae_math,
          .cancel = options.cancel};
}

// Asks the system to drop the model's files from memory, so that they are read from the disk again.
void forget_files(const std::filesystem::path& model) {
  std::error_code ec;
  const auto forget = [](const std::filesystem::path& file) {
    std::error_code error;
    os::File opened(file, os::OpenAs::input, error);
    if (!error) opened.forget_cached();
  };
  if (std::filesystem::is_regular_file(model, ec)) forget(model);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(model, ec))
    if (entry.is_regular_file(ec)) forget(entry.path());
}

// Returns the time from opening the model's files to the first frame. The first time in a process nothing is
// cached: files are read from the disk, weights are packed, libraries make their kernels and plans, and a GPU
// gets its code.
double opened_to_first_frame(const BenchOptions& options, int threads) {
  const double begin = monotonic_seconds();
  WorldSession session(open_model(ModelBundle::open(options.model), options, threads),
                       session_options(options));
  Blocks(options, session).start(random_input(session));
  return 1e6 * (monotonic_seconds() - begin);
}

}  // namespace

void bench_world(const BenchOptions& options, ModelBundle bundle, uint64_t free_bytes, BenchReport& report) {
  say(options, "model " + options.model.string());
  RunProfiler profiler;  // must outlive the session that it watches
  forget_files(options.model);
  const double cold_us = opened_to_first_frame(options, report.threads),
               warm_us = opened_to_first_frame(options, report.threads);
  WorldSession session(open_model(std::move(bundle), options, report.threads), session_options(options));
  Blocks blocks(options, session);
  const WorldInput input = random_input(session);
  const double first_us = blocks.start(input);
  blocks.warm_up(options.graphs);
  const auto times = blocks.run(options.blocks.value_or(kBlocks), options.blocks.has_value(), "block");
  const auto count = static_cast<int>(times.whole_us.size());
  const bool bf16 = find_level(options.level).mode.compute == Compute::bf16;
  report.blocks = describe(options, session, session.gpu() ? report.gpu.dtype : bf16 ? "bf16" : "f32", count);
  if (session.gpu() && session.gpu()->free_bytes() < free_bytes)
    report.blocks.taken_bytes = free_bytes - session.gpu()->free_bytes();
  const double block_us = summarise_times(times.whole_us).mean;
  report.lines.push_back(line_of_blocks("block", times.whole_us, block_us));

  session.watch(&profiler);
  blocks.again();
  blocks.warm_up(false);
  const size_t before = block_times(profiler.all_events()).size();
  blocks.run(std::min(count, kProfiledBlocks), false, "block by component");
  session.watch(nullptr);
  report.events = profiler.all_events();
  std::vector<BlockTime> parts = block_times(report.events, session.gpu() != nullptr);
  parts.erase(parts.begin(), parts.begin() + static_cast<ptrdiff_t>(std::min(before, parts.size())));
  double profiled_us = 0;
  for (const BlockTime& b : parts) profiled_us += b.whole_us / static_cast<double>(parts.size());
  for (int i = 0; i < kBlockParts; ++i) {
    std::vector<double> of_part;
    for (const BlockTime& b : parts) of_part.push_back(b.parts_us[static_cast<size_t>(i)]);
    if (summarise_times(of_part).median <= 0) continue;
    const auto name = fmt::format("block: {}", block_part_name(static_cast<BlockPart>(i)));
    report.lines.push_back(line_of_blocks(name, of_part, profiled_us));
  }
  report.lines.push_back(line_of_blocks("action to first frame", times.first_frame_us, 0));
  report.lines.push_back(line_of_blocks("start to first frame", {first_us}, 0));
  report.lines.push_back(line_of_blocks("cold start to first frame", {cold_us}, 0));
  report.lines.push_back(line_of_blocks("warm start to first frame", {warm_us}, 0));
  if (session.gpu()) report.lines.push_back(line_of_blocks("host CPU time of a block", times.cpu_us, 0));
}

}  // namespace tachy
