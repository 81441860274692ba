// Plays a world for one visitor at a time, in a thread of its own. It starts and makes block after block at
// the video's pace, each with the action that is held when it begins, and sends pictures to the page and to a
// recording.
//
// All functions except the constructor return at once. An order joins or replaces an earlier one that has not
// begun, so no visitor can make a queue grow. After an error the world waits for another start; if a
// recording cannot be written, it is dropped and the world goes on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "serve/limits.h"
#include "serve/outbox.h"
#include "serve/recording.h"
#include "serve/steered_world.h"

namespace tachy::serve {

struct PlayerOptions {
  double fps = 0;    // 0: the model's own rate; blocks do not begin faster than this
  WorldStart start;  // each visit begins with this
  int jpeg_quality = 85;
  PageLimits limits;
};

// The start of the next run; fields that are left out keep their values.
struct StartOrder {
  std::optional<uint64_t> seed;
  std::optional<std::string> prompt;
  std::vector<uint8_t> picture;  // bytes of a file
  bool reset = false;            // begins the same run again
};

class WorldPlayer {
 public:
  WorldPlayer(SteeredWorld& world, PlayerOptions options, RecordingShelf& shelf);
  ~WorldPlayer();  // stops the world and waits until it has stopped
  WorldPlayer(const WorldPlayer&) = delete;
  WorldPlayer& operator=(const WorldPlayer&) = delete;

  void attach(std::shared_ptr<Outbox> outbox);  // a new visitor
  void detach();  // the visitor left: the world stops and its recording is dropped
  void start(StartOrder order);
  void stop();
  void act(const WorldAction& action, uint64_t stamp);  // takes effect from the next block on
  void record(bool on);

  // These may be called from any thread. They say whether a start has not reached the end of its first block
  // yet, and whether there is a run at all.
  bool beginning() const { return stage_ == Stage::beginning; }
  bool running() const { return stage_ != Stage::still; }
  const PlayerOptions& options() const { return options_; }

 private:
  struct Orders {
    std::optional<StartOrder> start;
    std::optional<bool> record;
    bool stop = false, visitor = false, end = false;
    bool any() const { return start || record || stop || visitor || end; }
  };
  using Clock = std::chrono::steady_clock;

  void run();
  Orders wait();
  void obey(Orders& orders);
  void welcome();
  void begin(StartOrder& order);
  void take_picture(const std::vector<uint8_t>& file);
  void play_block();
  void send(const RgbImage& image, int64_t index);
  void try_recording(const std::function<void()>& step);
  void start_recording();
  void finish_recording();
  void failed(const std::exception& error);
  void say_state(const char* state, const std::string& text = "", const std::string& code = "");
  bool interrupted() const;

  SteeredWorld& world_;
  const PlayerOptions options_;
  RecordingShelf& shelf_;
  std::atomic<bool> ending_{false};
  enum class Stage { still, beginning, going };
  std::atomic<Stage> stage_{Stage::still};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Orders orders_;
  std::shared_ptr<Outbox> visitor_;
  WorldAction held_;
  uint64_t stamp_ = 0;

  // The state that only the world's thread uses.
  struct Play;
  std::unique_ptr<Play> play_;
  std::thread thread_;
};

}  // namespace tachy::serve
