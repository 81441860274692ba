// Turns a profile into text. A RunProfiler (base/run_profiler.h) in VideoCallbacks::profiler or World::watch
// profiles a run; these functions are called when the run has ended.
#pragma once

#include <string>

#include "base/run_profiler.h"

namespace tachy {

// For people to read: the time of each module as a tree and the sum for each kind of work, in milliseconds,
// on a GPU also as its own clock measures it. For a video that is made block by block it adds the time of
// each component of a block.
std::string profile_tables(const RunProfiler& profiler);
// Returns the same numbers as one JSON object, in microseconds: "modules", "kinds_us", "wall_us", "blocks",
// and on a GPU "device".
std::string profile_json(const RunProfiler& profiler);
// Returns the profile in Chrome's trace format, which ui.perfetto.dev and chrome://tracing open.
std::string chrome_trace(const RunProfiler& profiler);

}  // namespace tachy
