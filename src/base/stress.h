// TACHY_STRESS=SEED is for tests and for machines that may be faulty. It varies how long things take: threads
// that write pieces of weights, copies to a GPU and its compute queue pause for up to a few milliseconds at
// random places. It also fills memory that a GPU allocates with a byte that depends on the seed (NaN, small
// numbers or zeros). No bit of a result may change: if one does, there is a race, or a value is read before
// it was written.
#pragma once

#include <cstdint>

namespace tachy {

// Returns 0 if stress is off. The variable is read once; a text that is not a number throws invalid_argument.
uint64_t stress_seed();

// Lets this thread pause at random; returns at once if stress is off.
void stress_pause();

// Returns the byte that fills newly allocated memory.
int stress_byte();

}  // namespace tachy
