// A process that runs the jobs of a folder until none is left, for tests that kill it: workers_child FILES
// MODEL.
#include <cstdio>
#include <thread>

#include "queue/sqlite_table.h"
#include "workers/crashes.h"
#include "workers/foreman.h"

int main(int count, char** words) try {
  using namespace tachy;
  if (count != 3) return 2;
  const std::filesystem::path files = words[1];
  workers::leave_word_of_crashes();
  queue::SqliteTable table(files / "tachyscope.db");
  queue::EventBook book(files);
  workers::Models models({{.name = "sprites", .path = words[2]}}, {.threads = 2, .device = "cpu"});
  workers::Foreman foreman({.files = files}, table, book, models);
  foreman.start();
  while (true) {
    const queue::Counts counts = table.counts();
    if (counts.queued + counts.running == 0) return 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
