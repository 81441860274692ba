// The state of a visit that only the world's thread uses. Private to src/serve.
#pragma once

#include "media/picture/jpeg.h"
#include "serve/world_player.h"

namespace tachy::serve {

struct WorldPlayer::Play {
  explicit Play(int quality) : jpeg(quality) {}
  std::shared_ptr<Outbox> visitor;
  WorldStart start;
  bool running = false;
  uint32_t run = 0;
  uint64_t sequence = 0, blocks = 0, stamp = 0;
  Clock::time_point due;  // when the next block begins
  JpegEncoder jpeg;
  std::unique_ptr<Recording> recording;
};

}  // namespace tachy::serve
