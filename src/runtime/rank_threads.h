// Runs the ranks of a pass, each in a thread of its own, and the first one in the calling thread.
#pragma once

#include <functional>

namespace tachy::runtime {

// Calls body(rank) for each of `count` ranks. If one throws, `abandon` must end the others where they wait for
// it: they throw MeetingPlace::Abandoned, or whatever a queue of theirs reports. Rethrows the first error that a
// rank itself caused. All warnings are reported in the calling thread.
void run_ranks(int count, const std::function<void(int rank)>& body, const std::function<void()>& abandon);

}  // namespace tachy::runtime
