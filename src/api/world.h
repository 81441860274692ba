// A world that answers: a model makes a video block by block, and the keys and the mouse that are held down
// steer it.
//
//   tachy::World world("models/world", {.device = "auto"});
//   world.start({.image = picture, .seed = 7});
//   for (;;) {
//     world.act({.keyboard = {1, 0, 0, 0}, .mouse = {0, 0.1f}}); // from any thread
//     world.next_block([](const tachy::RgbImage& image, int64_t index) { … });
//   }
//
// Worlds of one model can share it, with one another and with the clips of its Engine: tachy::World
// world(engine). The weights are then in memory once, and several worlds may be played at the same time, each
// in a thread of its own.
//
// The largest amount of memory that a World may need is reserved as long as the World exists. Opening it is
// refused if that would not fit beside the other worlds on the device; it waits for runs that are in
// progress.
//
// Matrix-Game 2.0 and models of its kind are steered; Self-Forcing and CausVid follow the prompt, without
// keys. One World is one session on one device: next_block, start and reset belong to one thread; any thread
// may call act and stop.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/tachyscope.h"

namespace tachy {

struct WorldOptions {
  int width = 0, height = 0;    // pixels of the video; 0: the model's own
  std::optional<int> steps;     // number of the model's timesteps to use; left out: the model's own number
  std::optional<int> window;    // latent frames that a block sees, including its own; left out: the model's
  std::optional<double> shift;  // shift of the flow schedule; left out: the model's own
  std::string level = "safe";   // as in VideoRequest
  std::optional<std::string> dtype;
  std::string vae_math = "auto";
  std::vector<std::string> without;  // as in VideoRequest
  int64_t longest = 0;               // frames of the longest session, for the plan; 0: no end
};

// The keys and the mouse that are held during a block: one value for each of WorldInfo::keys, in that order
// (0 or 1, or between them), and the mouse's [pitch, yaw] in the model's units. Empty: nothing is held.
struct WorldAction {
  std::vector<float> keyboard, mouse;
  bool operator==(const WorldAction&) const = default;
};

struct WorldInfo {
  std::string kind;  // "universal", "gta", "templerun", "self-forcing", "causvid", …
  int width = 0, height = 0;
  double fps = 0;
  // The meaning of each value of `keyboard`: "W", "S", "A", "D", …; empty: no keyboard.
  std::vector<std::string> keys;
  bool mouse = false;
  double mouse_step = 0;  // the effect of holding an arrow key, in the mouse's units
  bool takes_image = false, takes_prompt = false;
  int64_t block_frames = 0, first_block_frames = 0;  // video frames of a block, and of the first one
  uint64_t peak_bytes = 0;                           // memory of a session, by the plan
  std::string dtype, residual;                       // the dtypes in which it computes, as in VideoRequest
  // The reason why each start needs image_embeds; empty: the model encodes pictures itself.
  std::string no_image_encoder;
};

struct WorldStart {
  std::shared_ptr<const Picture> image;
  std::shared_ptr<const ImageEmbeds> image_embeds;  // replaces the model's own image encoder
  std::string prompt;
  uint64_t seed = 0;
};

struct WorldBlock {
  int64_t index = 0;                    // counted from 0
  int64_t first_frame = 0, frames = 0;  // of the video
  WorldAction action;                   // the action that the block followed
  uint64_t stamp = 0;                   // the stamp that act() got with that action
  double first_frame_s = 0;             // time from taking the action until the first frame of the block was
                                        // there
  double seconds = 0;                   // time of the whole next_block
};

// Returns the values that a world has where WorldOptions leave them out, by name, for people to read. Only the
// model's configs are read. Throws unsupported for a model that makes no worlds.
std::vector<std::pair<std::string, std::string>> world_defaults(const std::filesystem::path& model,
                                                                const EngineOptions& engine = {});

class World {
 public:
  // Opens a model of its own.
  World(const std::filesystem::path& model, const EngineOptions& engine, const WorldOptions& options = {});
  // Shares the engine's model, device and threads. It may outlive the engine.
  explicit World(const Engine& engine, const WorldOptions& options = {});
  ~World();
  World(World&&) noexcept;
  World& operator=(World&&) noexcept;

  const WorldInfo& info() const;
  std::string device() const;

  // Throws what start() would throw for it, and begins nothing. To be called by the thread that calls
  // start().
  void verify(const WorldStart& start);
  // Begins a new session from its first block. Throws invalid_argument if something is missing or does not
  // fit the model.
  void start(const WorldStart& start);
  // Sets the action from the next block on, until another one comes. May be called from any thread. Throws
  // invalid_argument for a wrong number of values, and for values that are not finite or lie outside [-1, 1].
  void act(const WorldAction& action, uint64_t stamp = 0);
  // Makes a block. Its frames come in order in the calling thread, the first ones as soon as they are
  // decoded. Throws cancelled after stop(), and numerical (naming the stage) for a block that is not finite;
  // after an error only start and reset work. The callback may call act and stop, but not start, reset,
  // verify, watch or next_block.
  WorldBlock next_block(const std::function<void(const RgbImage& image, int64_t index)>& frame);
  // May be called from any thread: next_block soon ends by throwing cancelled.
  void stop();
  // Begins again with the same start, from its first block: the same actions give the same bits.
  void reset();
  // From the next start or reset on, `profiler` is told of each module's time, and a GPU makes its passes
  // without graphs. With null there is no profiler any more; the previous one has been told of everything by
  // then.
  void watch(Profiler* profiler);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tachy
