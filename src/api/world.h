// A world that answers: a model makes a video block by block, and what is held down on keyboard and mouse steers it.
//
//   tachy::World world("models/world", {.device = "auto"});
//   world.start({.image = picture, .seed = 7});
//   for (;;) {
//     world.act({.keyboard = {1, 0, 0, 0}, .mouse = {0, 0.1f}});     // from any thread
//     world.next_block([](const tachy::RgbImage& image, int64_t index) { … });
//   }
//
// Worlds of one model share it, with one another and with the clips of its Engine: tachy::World world(engine). Its weights are
// then in memory once, and several worlds may be played at the same time, each in a thread of its own.
//
// The most that a World may take is set aside from its opening until it goes away. It is refused where that would not fit
// beside the worlds that are open on the device; for runs that are under way it waits.
//
// Matrix-Game 2.0 and models of its kind are steered; Self-Forcing and CausVid make what the prompt says, without keys.
// One World is one session on one device: next_block, start and reset belong to one thread; act and stop to any.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/tachyscope.h"

namespace tachy {

struct WorldOptions {
  int width = 0, height = 0;    // pixels of the video; 0: the model's own
  std::optional<int> steps;     // of the model's list of timesteps; left out: the model's
  std::optional<int> window;    // latent frames that a block sees, its own among them; left out: the model's
  std::optional<double> shift;  // of the flow schedule; left out: the model's
  std::string level = "safe";   // as in VideoRequest
  std::optional<std::string> dtype;
  std::string vae_math = "auto";
  std::vector<std::string> without;  // as in VideoRequest
  int64_t longest = 0;               // frames of the longest session, for the plan; 0: without an end
};

// What is held down during a block: a value each in the order of WorldInfo::keys (0 or 1; others lie between), and the
// mouse's [pitch, yaw] in the model's units. Empty: nothing is held.
struct WorldAction {
  std::vector<float> keyboard, mouse;
  bool operator==(const WorldAction&) const = default;
};

struct WorldInfo {
  std::string kind;  // "universal", "gta", "templerun", "self-forcing", "causvid", …
  int width = 0, height = 0;
  double fps = 0;
  std::vector<std::string>
      keys;  // "W", "S", "A", "D", …: what each value of `keyboard` means; empty: no keyboard
  bool mouse = false;
  double mouse_step = 0;  // what holding an arrow key amounts to, in the mouse's units
  bool takes_image = false, takes_prompt = false;
  int64_t block_frames = 0, first_block_frames = 0;  // video frames of a block, and of the first one
  uint64_t peak_bytes = 0;                           // of a session, by the plan
  std::string dtype, residual;                       // in which it computes, as in VideoRequest
  std::string
      no_image_encoder;  // why each start needs image_embeds; empty: the model encodes pictures itself
};

struct WorldStart {
  std::shared_ptr<const Picture> image;
  std::shared_ptr<const ImageEmbeds> image_embeds;  // in place of the model's own image encoder
  std::string prompt;
  uint64_t seed = 0;
};

struct WorldBlock {
  int64_t index = 0;                    // from 0
  int64_t first_frame = 0, frames = 0;  // of the video
  WorldAction action;                   // that it followed
  uint64_t stamp = 0;                   // of that action, as act() was told
  double first_frame_s = 0;             // from the taking of its action until its first frame was there
  double seconds = 0;                   // all of next_block
};

class World {
 public:
  // With a model of its own.
  World(const std::filesystem::path& model, const EngineOptions& engine, const WorldOptions& options = {});
  // On the engine's model, device and threads. It may outlive the engine.
  explicit World(const Engine& engine, const WorldOptions& options = {});
  ~World();
  World(World&&) noexcept;
  World& operator=(World&&) noexcept;

  const WorldInfo& info() const;
  std::string device() const;

  // Throws what start() would find wrong with it, and begins nothing. It belongs to the thread of start().
  void verify(const WorldStart& start);
  // A new session from its first block. Throws invalid_argument where something is missing or does not fit the model.
  void start(const WorldStart& start);
  // Counts from the next block on, until another one comes. Any thread. Throws invalid_argument for another number of
  // values than the model's, or ones that are not finite or beyond [-1, 1].
  void act(const WorldAction& action, uint64_t stamp = 0);
  // Makes a block; its frames come in order in the calling thread, the first ones as soon as they are decoded. Throws
  // cancelled after stop(), numerical (naming the stage) where a block is not finite; after an error only start and reset go on.
  // The callback may act and stop, but neither start, reset, verify, watch nor make blocks.
  WorldBlock next_block(const std::function<void(const RgbImage& image, int64_t index)>& frame);
  // Any thread: next_block ends soon, by throwing cancelled.
  void stop();
  // The same start again, from its first block: the same actions give the same bits.
  void reset();
  // From the next start or reset on `profiler` is told of each module's time, and on a GPU passes run without graphs; null:
  // nobody, and the one before has been told of everything.
  void watch(Profiler* profiler);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tachy
