// Serves the drawn world (tests/unit/serve/drawn_world.h) as the page of a real one, until its standard input is closed:
//   drawn_world [name=value …]     port, fps, width, height, block_seconds, idle_seconds, stalled_seconds, alive_seconds, token, seed,
//                                  picture (0: none)
// It prints the page's address first.
#include "../unit/serve/drawn_world.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <string>
#include <thread>

#include "serve/page_server.h"

namespace {

int run(int argc, char** argv) {
  std::map<std::string, std::string> given;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    given[word.substr(0, word.find('='))] = word.substr(std::min(word.size(), word.find('=') + 1));
  }
  const auto number = [&](const char* name, double otherwise) {
    return given.contains(name) ? std::stod(given[name]) : otherwise;
  };
  const auto milliseconds = [&](const char* name, std::chrono::milliseconds otherwise) {
    return given.contains(name) ? std::chrono::milliseconds(static_cast<int64_t>(number(name, 0) * 1000))
                                : otherwise;
  };
  tachy::test::DrawnWorld world(static_cast<int>(number("width", 160)),
                                static_cast<int>(number("height", 96)), number("fps", 12),
                                number("block_seconds", 0));
  tachy::serve::PageOptions options;
  options.port = static_cast<int>(number("port", 0));
  options.token = given["token"];
  if (number("picture", 1) != 0) options.play.start = tachy::test::drawn_start();
  options.play.limits.idle = milliseconds("idle_seconds", options.play.limits.idle);
  options.play.limits.stalled = milliseconds("stalled_seconds", options.play.limits.stalled);
  options.play.limits.alive = milliseconds("alive_seconds", options.play.limits.alive);
  if (given.contains("seed")) options.play.start.seed = std::stoull(given["seed"]);
  tachy::serve::PageServer server(world, options);
  fmt::print("{}\n", server.url());
  std::fflush(stdout);
  std::thread ends([&] {
    char bytes[64];
    while (::read(0, bytes, sizeof bytes) > 0) {
    }
    server.stop();
  });
  server.run();
  ends.join();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "drawn_world: {}\n", e.what());
    return 1;
  }
}
