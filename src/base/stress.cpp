#include "base/stress.h"

#include <atomic>
#include <charconv>
#include <chrono>
#include <thread>

#include "base/env.h"
#include "base/error.h"

namespace tachy {
namespace {

uint64_t read_seed() {
  const std::string text = env_string("TACHY_STRESS", "");
  if (text.empty()) return 0;
  uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  require(error == std::errc() && end == text.data() + text.size(),
          "TACHY_STRESS: expected a seed of delays, a whole number (0: none), got '{}'", text);
  return seed;
}

uint64_t mixed(uint64_t v) {
  v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9u;
  v = (v ^ (v >> 27)) * 0x94d049bb133111ebu;
  return v ^ (v >> 31);
}

}  // namespace

uint64_t stress_seed() {
  static const uint64_t seed = read_seed();
  return seed;
}

void stress_pause() {
  const uint64_t seed = stress_seed();
  if (seed == 0) return;
  static std::atomic<uint64_t> turn{0};
  const uint64_t draw = mixed(seed + 0x9e3779b97f4a7c15u * (turn.fetch_add(1) + 1));
  if (draw % 8 != 0) return;  // most calls do not pause, so delays differ from call to call
  const uint64_t most = (draw >> 8) % 16 == 0 ? 4000 : 300;  // microseconds
  std::this_thread::sleep_for(std::chrono::microseconds((draw >> 16) % most));
}

int stress_byte() {
  constexpr int bytes[] = {0xff, 0x00, 0x3c, 0x7f};  // NaN; zero; about 0.01 in bf16; large
  return bytes[stress_seed() % 4];
}

}  // namespace tachy
