// This says what a profile has found. A run is profiled by a RunProfiler (base/run_profiler.h) in VideoCallbacks::profiler or World::watch; when
// the run has ended, these make texts of it.
#pragma once

#include <string>

#include "base/run_profiler.h"

namespace tachy {

// For people: each module's time as a tree and the sum by kind of work, in milliseconds; on a GPU by its own clock as well.
// A video that is made block by block also has the time of each component of a block.
std::string profile_tables(const RunProfiler& profiler);
// The same numbers as one JSON object, in microseconds: "modules", "kinds_us", "wall_us", on a GPU "device", "blocks".
std::string profile_json(const RunProfiler& profiler);
// Chrome's trace format: open it in ui.perfetto.dev or chrome://tracing.
std::string chrome_trace(const RunProfiler& profiler);

}  // namespace tachy
