#include "serve/world_player.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json_text.h"
#include "media/picture/image_reader.h"
#include "serve/messages.h"
#include "serve/player_state.h"

namespace tachy::serve {

using nlohmann::json;

namespace {

// Joins two orders, neither of which has begun: fields that the later one leaves out come from the earlier
// one. "The same run again" then means the run that is about to begin.
StartOrder joined(StartOrder earlier, StartOrder later) {
  if (later.reset) return earlier;
  if (!later.seed) later.seed = earlier.seed;
  if (!later.prompt) later.prompt = std::move(earlier.prompt);
  if (later.picture.empty()) later.picture = std::move(earlier.picture);
  return later;
}

}  // namespace

WorldPlayer::WorldPlayer(SteeredWorld& world, PlayerOptions options, RecordingShelf& shelf)
    : world_(world),
      options_([&] {
        if (options.fps <= 0) options.fps = world.info().fps;
        return std::move(options);
      }()),
      shelf_(shelf),
      play_(std::make_unique<Play>(options_.jpeg_quality)) {
  thread_ = std::thread([this] { run(); });
}

WorldPlayer::~WorldPlayer() {
  {
    const std::lock_guard lock(mutex_);
    orders_ = {};
    orders_.end = true;
    ending_ = true;
    world_.stop();
  }
  changed_.notify_all();
  thread_.join();
}

// world_.stop() is called under the lock together with its order. The thread takes the order afterwards, and
// a start in it cancels the stop, so that no stop can hit the run that follows.
void WorldPlayer::attach(std::shared_ptr<Outbox> outbox) {
  const std::lock_guard lock(mutex_);
  orders_ = {};
  orders_.visitor = true;
  visitor_ = std::move(outbox);
  held_ = {}, stamp_ = 0;
  world_.stop();
  changed_.notify_all();
}

void WorldPlayer::detach() { attach(nullptr); }

void WorldPlayer::start(StartOrder order) {
  const std::lock_guard lock(mutex_);
  orders_.start = orders_.start ? joined(std::move(*orders_.start), std::move(order)) : std::move(order);
  world_.stop();
  changed_.notify_all();
}

void WorldPlayer::stop() {
  const std::lock_guard lock(mutex_);
  orders_.start.reset();
  orders_.stop = true;
  world_.stop();
  changed_.notify_all();
}

void WorldPlayer::act(const WorldAction& action, uint64_t stamp) {
  const std::lock_guard lock(mutex_);
  held_ = action, stamp_ = stamp;
}

void WorldPlayer::record(bool on) {
  const std::lock_guard lock(mutex_);
  orders_.record = on;
  changed_.notify_all();
}

bool WorldPlayer::interrupted() const {
  const std::lock_guard lock(mutex_);
  return orders_.any();
}

WorldPlayer::Orders WorldPlayer::wait() {
  std::unique_lock lock(mutex_);
  const auto asked = [&] { return orders_.any(); };
  if (play_->running)
    changed_.wait_until(lock, play_->due, asked);
  else
    changed_.wait(lock, asked);
  Orders orders = std::exchange(orders_, {});
  if (orders.visitor) play_->visitor = visitor_;
  return orders;
}

void WorldPlayer::run() {
  for (;;) {
    Orders orders = wait();
    if (orders.end) break;
    try {
      obey(orders);
      // An order that came in the meantime does not make a block begin sooner.
      if (play_->running && Clock::now() >= play_->due) play_block();
    } catch (const std::exception& e) {
      failed(e);
    }
    if (!play_->running) stage_ = Stage::still;
  }
  play_->recording.reset();
}

void WorldPlayer::obey(Orders& orders) {
  if (orders.visitor) welcome();
  if (orders.stop) {
    play_->running = false;
    finish_recording();
    if (!orders.start) say_state("stopped");
  }
  if (orders.start) begin(*orders.start);
  if (orders.record.value_or(false))
    start_recording();
  else if (orders.record)
    finish_recording();
}

// Resets everything that belonged to the previous visitor.
void WorldPlayer::welcome() {
  Play& p = *play_;
  p.running = false;
  p.recording.reset();
  p.start = options_.start;
  p.sequence = p.blocks = 0;
  p.run = 0;
}

void WorldPlayer::begin(StartOrder& order) {
  Play& p = *play_;
  p.running = false;
  stage_ = Stage::beginning;
  say_state("starting");
  if (!order.picture.empty()) take_picture(order.picture);
  if (order.seed) p.start.seed = *order.seed;
  if (order.prompt) p.start.prompt = *order.prompt;
  ++p.run;
  if (order.reset)
    world_.reset();
  else
    world_.start(p.start);
  p.running = true;
  p.due = Clock::now();
  say_state("running");
}

// Stores the picture at the video's size: nothing else of a large picture is kept.
void WorldPlayer::take_picture(const std::vector<uint8_t>& file) {
  const WorldInfo& info = world_.info();
  const RgbFrame whole = decode_image(file, "the picture", options_.limits.picture_pixels);
  RgbFrame fitted = crop_resize(whole.view(), info.width, info.height);
  play_->start.image =
      std::make_shared<const Picture>(Picture{fitted.width, fitted.height, std::move(fitted.rgb)});
  play_->start.image_embeds = nullptr;  // the embeddings belong to another picture
}

void WorldPlayer::play_block() {
  Play& p = *play_;
  if (interrupted()) return;
  {
    const std::lock_guard lock(mutex_);
    world_.act(held_, stamp_);
    p.stamp = stamp_;
  }
  const auto begun = Clock::now();
  ++p.blocks;  // an unfinished block counts, too: its frames do not belong to the next one
  const WorldBlock block =
      world_.next_block([&](const RgbImage& image, int64_t index) { send(image, index); });
  stage_ = Stage::going;
  // The next block begins when this one's frames have been shown. The schedule makes up for late waking, but
  // not for blocks that take too long.
  const auto shown = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(static_cast<double>(block.frames) / options_.fps));
  p.due = (begun - p.due < shown ? p.due : begun) + shown;
  if (p.recording && p.recording->full()) finish_recording();
  if (p.visitor)
    p.visitor->news(json_line(json{{"type", "block"},
                                   {"run", p.run},
                                   {"index", block.index},
                                   {"frames", block.frames},
                                   {"first_frame_seconds", block.first_frame_s},
                                   {"seconds", block.seconds},
                                   {"dropped", p.visitor->frames.dropped()}}));
}

void WorldPlayer::send(const RgbImage& image, int64_t index) {
  Play& p = *play_;
  const RgbView view{image.rgb.data(), image.width, image.height, int64_t{image.width} * 3};
  if (p.recording) try_recording([&] { p.recording->write(view); });
  if (!p.visitor) return;
  QueuedFrame frame{.sequence = p.sequence++, .block = p.blocks, .bytes = {}};
  append_header(
      {.run = p.run, .sequence = frame.sequence, .frame = static_cast<uint64_t>(index), .stamp = p.stamp},
      frame.bytes);
  p.jpeg.encode(view, frame.bytes);
  p.visitor->frame(std::move(frame));
}

}  // namespace tachy::serve
