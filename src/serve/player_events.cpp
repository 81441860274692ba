// The messages of the world's thread to a visitor: states, errors, recordings.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "serve/player_state.h"

namespace tachy::serve {

using nlohmann::json;

// A full disk is no reason to end a walk.
void WorldPlayer::try_recording(const std::function<void()>& step) {
  Play& p = *play_;
  try {
    step();
  } catch (const std::exception& e) {
    p.recording.reset();
    if (p.visitor)
      p.visitor->event(json_line(json{{"type", "recording"}, {"state", "lost"}, {"text", e.what()}}));
  }
}

void WorldPlayer::start_recording() {
  Play& p = *play_;
  if (p.recording) return;
  try_recording([&] {
    const WorldInfo& info = world_.info();
    p.recording = std::make_unique<Recording>(
        info.width, info.height, options_.fps,
        static_cast<int64_t>(options_.limits.recording_seconds * options_.fps), &ending_);
  });
  if (p.recording && p.visitor) p.visitor->event(json_line(json{{"type", "recording"}, {"state", "on"}}));
}

void WorldPlayer::finish_recording() {
  Play& p = *play_;
  if (!p.recording) return;
  try_recording([&] {
    const std::unique_ptr<Recording> recording = std::move(p.recording);
    const std::shared_ptr<const RecordedFile> file = recording->finish();
    json event{{"type", "recording"}, {"state", file ? "done" : "empty"}};
    if (file) {
      event["id"] = file->id, event["frames"] = file->frames, event["bytes"] = file->bytes;
      shelf_.put(file);
    }
    if (p.visitor) p.visitor->event(json_line(event));
  });
}

// After an error the world waits for another start. If an order interrupted a block, that is not an error for
// the visitor.
void WorldPlayer::failed(const std::exception& error) {
  Play& p = *play_;
  const bool was = std::exchange(p.running, false);
  const auto* ours = dynamic_cast<const Error*>(&error);
  const bool cancelled = ours && ours->code() == ErrorCode::cancelled;
  if (cancelled && interrupted()) {
    p.running = was;  // the order decides how it goes on
    return;
  }
  finish_recording();  // keeps the frames so far
  if (cancelled) return say_state("stopped");
  std::string text = error.what();
  std::erase(text, '`');  // field names in backticks mean nothing to a visitor
  say_state("error", text, std::string(ours ? to_string(ours->code()) : "internal"));
}

void WorldPlayer::say_state(const char* state, const std::string& text, const std::string& code) {
  Play& p = *play_;
  if (!p.visitor) return;
  json event{{"type", "state"},
             {"state", state},
             {"run", p.run},
             {"seed", p.start.seed},
             {"has_picture", p.start.image != nullptr}};
  if (!text.empty()) event["text"] = text, event["code"] = code;
  p.visitor->event(json_line(event));
}

}  // namespace tachy::serve
