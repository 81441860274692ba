#include "api/world.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>

#include "api/engine_options.h"
#include "media/picture/clip_picture.h"
#include "media/picture/image_reader.h"
#include "stages/condition.h"
#include "worlds/world_session.h"

namespace tachy {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::shared_ptr<Model> open_world_model(const std::filesystem::path& model, const EngineOptions& options) {
  require(!options.verify_upload, "`verify_upload`: it is not for worlds; leave it out");
  return open_model(model, options);
}

void check_values(const char* what, const std::vector<float>& values, size_t expected) {
  require(values.empty() || values.size() == expected, "action: {}: expected {} values, got {}", what,
          expected, values.size());
  for (size_t i = 0; i < values.size(); ++i)
    require(std::isfinite(values[i]) && std::abs(values[i]) <= 1,
            "action: {}: value {} is {}, expected -1 to 1", what, i, values[i]);
}

}  // namespace

struct World::State {
  State(std::shared_ptr<Model> model, const WorldOptions& o)
      : session(std::move(model), {.choices = {.width = o.width,
                                               .height = o.height,
                                               .steps = o.steps,
                                               .window = o.window,
                                               .shift = o.shift},
                                   .level = o.level,
                                   .dtype = o.dtype.value_or(""),
                                   .vae_math = o.vae_math,
                                   .without = o.without,
                                   .longest_frames = o.longest,
                                   .cancel = &stopped}) {
    const WorldConfig& c = session.config();
    info = {.kind = c.kind, .width = c.width, .height = c.height, .fps = c.fps, .keys = c.keys};
    info.mouse = c.mouse, info.mouse_step = c.mouse_step;
    info.takes_image = session.model().family->actions, info.takes_prompt = !info.takes_image;
    info.first_block_frames = session.pixel_frames(c.first_block);
    info.block_frames = session.pixel_frames(c.first_block + c.block) - info.first_block_frames;
    info.peak_bytes = session.plan().peak_bytes;
    const Precision& p = session.precision();
    info.residual = dtype_name(p.residual);
    info.dtype = session.gpu() ? dtype_name(p.activation) : p.compute == Compute::bf16 ? "bf16" : "f32";
    const ModelBundle& m = session.model();
    if (info.takes_image && !m.image_encoder) info.no_image_encoder = m.no_image_encoder;
  }

  WorldInput prepare(const WorldStart& s) {
    const ModelBundle& m = session.model();
    WorldInput in;
    if (info.takes_prompt) {
      require(!s.image && !s.image_embeds, "`image`: this world begins with a prompt alone; leave it out");
      require(!s.prompt.empty(), "`prompt`: this world begins with a prompt; give one");
      in.text = session.read_prompt(s.prompt);
      return in;
    }
    require(s.prompt.empty(), "`prompt`: this model reads no text; leave it out");
    require(s.image != nullptr, "`image`: this world begins with a picture; give one");
    const Picture& p = *s.image;
    require(p.width >= 1 && p.height >= 1 &&
                p.rgb.size() == static_cast<size_t>(p.width) * static_cast<size_t>(p.height) * 3,
            "`image`: {} bytes are not a picture of {}x{} pixels", p.rgb.size(), p.width, p.height);
    RgbFrame fitted = naming("`image`", [&] {
      return crop_resize({p.rgb.data(), p.width, p.height, int64_t{p.width} * 3}, info.width, info.height);
    });
    if (s.image_embeds) {
      const ImageEmbeds& e = *s.image_embeds;
      const int64_t width = m.dit.image_dim, most = WorldRun::most_image_rows(m);
      const auto rows = static_cast<int64_t>(e.values.size()) / width;
      require(!e.shape.empty() && e.shape.back() == width && rows >= 1 && rows <= most &&
                  static_cast<int64_t>(e.values.size()) == rows * width,
              "`image_embeds`: expected [n, {}] with 1 to {} rows, got {} values", width, most,
              e.values.size());
      in.image_embeds = e.values;
    } else {
      check(m.image_encoder != nullptr, ErrorCode::not_found,
            "{}; or give `image_embeds`, the embeddings of the picture", m.no_image_encoder);
      ClipPreparation how = m.clip_preparation;
      how.original = true;  // made from the fitted picture, as in the original program
      in.clip_pixels = clip_pixels(fitted.view(), how);
    }
    in.picture = pixels_of(Picture{fitted.width, fitted.height, std::move(fitted.rgb)});
    return in;
  }

  // Returns the action that is set now, with values for all keys.
  WorldSession::Action take(WorldBlock& block) {
    const std::lock_guard lock(mutex);
    block.action = action, block.stamp = stamp;
    WorldSession::Action out{action.keyboard, action.mouse};
    if (out.keyboard.empty()) out.keyboard.resize(info.keys.size());
    if (out.mouse.empty() && info.mouse) out.mouse.resize(2);
    return out;
  }

  // The frames' callback must not destroy the session that is making the block.
  void expect_no_block() const {
    require(!in_block,
            "world: a block is being made: start, reset and next_block cannot be called from the callback "
            "that takes its frames; stop ends the block");
  }

  enum class Phase { none, ready, broken };
  std::atomic<bool> stopped{false};
  std::atomic<Phase> phase{Phase::none};
  WorldInfo info;
  WorldSession session;
  bool startable = false;  // whether reset has something to begin again
  bool in_block = false;   // true while next_block runs
  int64_t blocks = 0;
  std::mutex mutex;
  WorldAction action;
  uint64_t stamp = 0;

  template <class Begin>
  void begin(Begin&& make) {
    stopped = false;
    phase = Phase::broken;
    blocks = 0;
    {
      const std::lock_guard lock(mutex);
      action = {}, stamp = 0;
    }
    make();
    phase = Phase::ready;
  }
};

World::World(const std::filesystem::path& model, const EngineOptions& engine, const WorldOptions& options)
    : state_(std::make_unique<State>(open_world_model(model, engine), options)) {}
World::World(const Engine& engine, const WorldOptions& options)
    : state_(std::make_unique<State>(engine.model(), options)) {}
World::~World() = default;
World::World(World&&) noexcept = default;
World& World::operator=(World&&) noexcept = default;

const WorldInfo& World::info() const { return state_->info; }
std::string World::device() const {
  const cuda::Gpu* gpu = state_->session.gpu();
  return gpu ? gpu->info().name : "cpu";
}

void World::verify(const WorldStart& start) {
  state_->expect_no_block();
  state_->prepare(start);
}

void World::start(const WorldStart& start) {
  state_->expect_no_block();
  const WorldInput input = state_->prepare(start);  // an input that does not fit leaves the session as it is
  state_->startable = false;
  state_->begin([&] { state_->session.start(input, start.seed); });
  state_->startable = true;
}

void World::reset() {
  state_->expect_no_block();
  require(state_->startable, "world: there is nothing to reset: no session was started");
  state_->begin([&] { state_->session.reset(); });
}

void World::watch(Profiler* profiler) {
  state_->expect_no_block();
  state_->session.watch(profiler);
}

void World::act(const WorldAction& action, uint64_t stamp) {
  check_values("keyboard", action.keyboard, state_->info.keys.size());
  check_values("mouse", action.mouse, state_->info.mouse ? 2 : 0);
  const std::lock_guard lock(state_->mutex);
  state_->action = action, state_->stamp = stamp;
}

void World::stop() { state_->stopped = true; }

WorldBlock World::next_block(const std::function<void(const RgbImage& image, int64_t index)>& frame) {
  State& s = *state_;
  s.expect_no_block();
  require(s.phase != State::Phase::none, "world: no session was started");
  require(s.phase == State::Phase::ready,
          "world: the session has ended with an error; start another, or reset it");
  const Clock::time_point begin = Clock::now();
  Clock::time_point taken = begin;
  WorldBlock out{.index = s.blocks, .action = {}};
  bool first = true;
  s.in_block = true;
  try {
    const auto made = s.session.next(
        [&] {
          taken = Clock::now();
          return s.take(out);
        },
        [&](const RgbImage& image, int64_t index) {
          if (std::exchange(first, false)) out.first_frame_s = seconds_since(taken);
          if (frame) frame(image, index);
        });
    out.first_frame = made.first_frame, out.frames = made.frames;
  } catch (...) {
    s.phase = State::Phase::broken, s.in_block = false;
    throw;
  }
  s.in_block = false;
  out.seconds = seconds_since(begin);
  ++s.blocks;
  return out;
}

std::vector<std::pair<std::string, std::string>> world_defaults(const std::filesystem::path& model,
                                                                const EngineOptions& engine) {
  const WorldConfig c = world_config(ModelBundle::open(model, FileAccess::map, part_paths(engine)), {});
  return {{"size", fmt::format("{}x{}", c.width, c.height)},
          {"fps", fmt::format("{:g}", c.fps)},
          {"steps", fmt::format("{}", world_sampler(c, {}).steps)},
          {"window", fmt::format("{}", c.window)}};
}

}  // namespace tachy
