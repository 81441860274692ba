// Runs several jobs at once, one on each card.
#pragma once

#include <cstddef>
#include <functional>

namespace tachy::cli {

// Calls run(card, job) for each of the jobs 0, 1, …: a card takes the next job when it is free. Each card has a thread,
// the first one the calling thread. After the first error no further job begins, those under way go on to their end,
// and the error is rethrown.
void on_cards(size_t cards, size_t jobs, const std::function<void(size_t card, size_t job)>& run);

}  // namespace tachy::cli
