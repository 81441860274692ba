// A run that several processes make together (runtime/crew.h): all begin with the state that rank 0 resumes
// from, and an error of one ends all.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "resolve/resolved.h"
#include "runtime/crew.h"

namespace tachy {

// Calls run() as a rank of the crew, with callbacks whose cancel flag is also set when a rank is gone.
// Returns what it returns, or nothing if rank 0 says that there is nothing to do. Ranks other than 0 wait
// for rank 0, and take the state to resume from out of its hands.
using RunOfRank = std::function<Resolved(const VideoCallbacks& callbacks, const RunState* resume)>;
std::optional<Resolved> run_in_crew(runtime::Crew& crew, const VideoCallbacks& given, const RunState* resume,
                                    const RunOfRank& run);

// A state as bytes, for the other ranks; "" for none. Reading throws corrupt if the bytes do not fit
// together; whether the state fits the request, check_state (denoise/run_state.h) says.
std::string state_bytes(const RunState* state);
std::optional<RunState> state_in(std::string_view bytes);

}  // namespace tachy
