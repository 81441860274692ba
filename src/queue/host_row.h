// A host of the queue as the others know it, and what the holders of keys have used.
#pragma once

#include <cstdint>
#include <string>

namespace tachy::queue {

// A server that shares the table with others. It announces itself every few seconds.
struct HostRow {
  std::string name;     // of its worker
  std::string address;  // "10.0.0.7:8190", where others ask it for its files
  std::string files;    // the id of its folder of files: hosts with the same one share the folder
  std::string about;    // a JSON object: role, models, loras, memory … (workers/presence.h)
  bool alive = true;    // it was heard of within the lease
  double silent_seconds = 0;
};

// The work that was done for somebody: what came out of it, and how long a device computed.
struct Usage {
  int64_t frames = 0;
  double pixels = 0;   // width x height x frames
  double seconds = 0;  // of computing, also in runs that were interrupted or failed
};

struct UsageRow {
  std::string owner, model;
  int64_t day = 0;   // since 1970, by the table's clock
  int64_t jobs = 0;  // that were completed
  Usage used;
};

constexpr int64_t day_of_ms(int64_t ms) { return ms / 86'400'000; }

}  // namespace tachy::queue
