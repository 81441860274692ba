#include "engine/crew_run.h"

#include <cstring>
#include <new>

namespace tachy {
namespace {

template <class T>
void put(std::string& out, const std::vector<T>& values) {
  const uint64_t count = values.size();
  out.append(reinterpret_cast<const char*>(&count), sizeof count);
  out.append(reinterpret_cast<const char*>(values.data()), count * sizeof(T));
}

template <class T>
std::vector<T> take(std::string_view& bytes) {
  uint64_t count = 0;
  check(bytes.size() >= sizeof count, ErrorCode::corrupt, "ranks: a state ends too early");
  std::memcpy(&count, bytes.data(), sizeof count);
  bytes.remove_prefix(sizeof count);
  check(count <= bytes.size() / sizeof(T), ErrorCode::corrupt, "ranks: a state of {} values ends too early",
        count);
  std::vector<T> out(static_cast<size_t>(count));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
  bytes.remove_prefix(out.size() * sizeof(T));
  return out;
}

// Ends what watch() began.
struct Watch {
  runtime::Crew& crew;
  ~Watch() { crew.stop_watching(); }
};

}  // namespace

std::string state_bytes(const RunState* state) {
  std::string out;
  if (!state) return out;
  put(out, std::vector<int64_t>{state->step, state->window, state->windows, state->frames,
                                static_cast<int64_t>(state->solver.size())});
  put(out, state->latents), put(out, state->generator), put(out, state->motion);
  for (const std::vector<float>& tensor : state->solver) put(out, tensor);
  return out;
}

std::optional<RunState> state_in(std::string_view bytes) {
  if (bytes.empty()) return std::nullopt;
  const auto numbers = take<int64_t>(bytes);
  check(numbers.size() == 5 && numbers[4] >= 0 && numbers[4] <= 64, ErrorCode::corrupt,
        "ranks: a state has {} numbers", numbers.size());
  RunState out{.step = numbers[0], .window = numbers[1], .windows = numbers[2], .frames = numbers[3]};
  out.latents = take<float>(bytes), out.generator = take<uint8_t>(bytes), out.motion = take<float>(bytes);
  for (int64_t i = 0; i < numbers[4]; ++i) out.solver.push_back(take<float>(bytes));
  check(bytes.empty(), ErrorCode::corrupt, "ranks: {} bytes follow a state", bytes.size());
  return out;
}

std::optional<Resolved> run_in_crew(runtime::Crew& crew, const VideoCallbacks& given, const RunState* resume,
                                    const RunOfRank& run) try {
  std::optional<RunState> theirs;
  if (crew.leads()) {
    crew.begin(state_bytes(resume));
  } else {
    const std::optional<std::string> bytes = crew.next(given.cancel);
    if (!bytes) return std::nullopt;
    theirs = state_in(*bytes);
    resume = theirs ? &*theirs : nullptr;
  }
  VideoCallbacks callbacks = given;
  callbacks.cancel = crew.watch(given.cancel);
  const Watch until_the_end{crew};
  try {
    return run(callbacks, resume);
  } catch (const Error& e) {
    throw crew.reason_for(e);
  }
} catch (const Error& e) {
  crew.end(e);
  throw;
} catch (const std::bad_alloc&) {
  crew.end(Error(ErrorCode::out_of_memory, "out of memory"));
  throw;
}

}  // namespace tachy
