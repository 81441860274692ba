// A player of the drawn world without a server: its orders, and the messages that it sends.
#pragma once

#include <gmock/gmock.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "drawn_world.h"
#include "media/picture/image_reader.h"
#include "serve/messages.h"
#include "serve/world_player.h"

namespace tachy::serve {

inline uint64_t number_at(const std::vector<uint8_t>& bytes, size_t at, size_t size) {
  uint64_t out = 0;
  for (size_t i = 0; i < size; ++i) out |= uint64_t{bytes[at + i]} << (8 * i);
  return out;
}

class PlayerTest : public testing::Test {
 protected:
  void open(double fps = 240, double block_seconds = 0, WorldStart start = test::drawn_start()) {
    play(std::make_unique<test::DrawnWorld>(160, 96, fps, block_seconds), std::move(start));
  }
  void play(std::unique_ptr<test::DrawnWorld> world, WorldStart start = test::drawn_start()) {
    world_ = std::move(world);
    PlayerOptions options{.start = std::move(start), .limits = limits_};
    player_ = std::make_unique<WorldPlayer>(*world_, options, shelf_);
    outbox_ = visit();
  }
  std::shared_ptr<Outbox> visit() {
    auto outbox = std::make_shared<Outbox>(256, [] {});
    player_->attach(outbox);
    return outbox;
  }
  // Returns the next event of that type and, if one is given, that state.
  nlohmann::json event(const std::string& type, const std::string& state = "") {
    for (const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
         std::chrono::steady_clock::now() < until; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
      while (const auto text = outbox_->pop_event()) {
        nlohmann::json event = nlohmann::json::parse(*text);
        if (event["type"] == type && (state.empty() || event["state"] == state)) return event;
      }
    ADD_FAILURE() << "no event " << type << " " << state;
    return {};
  }
  std::vector<uint8_t> frame() {
    for (const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
         std::chrono::steady_clock::now() < until;
         std::this_thread::sleep_for(std::chrono::microseconds(100)))
      if (auto got = outbox_->frames.pop()) return std::move(got->bytes);
    ADD_FAILURE() << "no frame";
    return std::vector<uint8_t>(kFrameHeaderBytes);
  }
  static RgbFrame picture(const std::vector<uint8_t>& bytes) {
    return decode_image(std::span(bytes).subspan(kFrameHeaderBytes), "frame");
  }

  PageLimits limits_;
  RecordingShelf shelf_;
  std::unique_ptr<test::DrawnWorld> world_;
  std::unique_ptr<WorldPlayer> player_;
  std::shared_ptr<Outbox> outbox_;
};

}  // namespace tachy::serve
