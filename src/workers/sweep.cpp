// The things that the dispatcher of a Foreman removes: ended jobs that are outdated, and previews that nobody
// looks at any more.
#include "base/log.h"
#include "workers/after_run.h"
#include "workers/foreman_state.h"
#include "workers/wall_clock.h"

namespace tachy::workers {
namespace {

constexpr int64_t kBetweenSweepsMs = 60'000;

}  // namespace

// Removes ended jobs that are too old, or too many. The folder goes first: a row without one is found again.
void Foreman::State::sweep() {
  if (table.now_ms() - swept_ms < kBetweenSweepsMs) return;
  swept_ms = table.now_ms();
  for (const std::string& id : table.outdated(swept_ms, options.keep_bytes)) {
    std::error_code ec;
    std::filesystem::remove_all(queue::JobFolder(options.files, id).path, ec);
    if (ec) {
      warn("{}: the job is outdated, but its folder cannot be removed: {}", id, ec.message());
      continue;
    }
    table.remove(id);
    book.forget(id);
  }
}

// Whoever has just read the event of a preview can still fetch it.
void Foreman::State::drop_previews() {
  const int64_t until = wall_clock_ms() - static_cast<int64_t>(options.preview_seconds * 1000);
  while (!previewed.empty() && previewed.front().first <= until) {
    const std::optional<queue::JobRow> row = table.find(previewed.front().second);
    if (row && row->ended_ms > 0) keep_previews({options.files, row->id}, 1);  // one that goes on needs them
    previewed.erase(previewed.begin());
  }
}

}  // namespace tachy::workers
