// Connects every rank with every other one. Ranks 1 and up come to rank 0, at the place that the launcher's
// variables name. Each listens at a port of its own on the interface through which it reached rank 0, and
// rank 0 tells all where the others are; then each connects to those below it. All of these connections begin
// with the greeting.
#pragma once

#include <memory>
#include <string>

#include "distributed/door.h"
#include "distributed/launch.h"

namespace tachy::distributed {

struct Meeting {
  std::string secret;     // at least kLeastSecret characters; "": none, which only ranks of one host may do
  std::string interface;  // name or address of this machine's network interface; "": the one that leads there
  double seconds = 60;
  const std::atomic<bool>* cancel = nullptr;
};
inline constexpr size_t kLeastSecret = 16;

// Reads TACHY_RANK_SECRET, TACHY_RANK_INTERFACE and TACHY_RANK_SECONDS.
Meeting meeting_of_environment();

// Throws, in every rank that is there, if the ranks do not come together in time.
std::unique_ptr<Mesh> meet(const Launch& launch, const Meeting& meeting);

}  // namespace tachy::distributed
