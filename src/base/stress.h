// TACHY_STRESS=SEED, for tests and for machines that are under suspicion: whatever has no fixed time is made
// to take another one. Threads that write pieces of weights, copies to a GPU and its compute queue stop for
// up to a few milliseconds at random places, and memory that a GPU gives is filled with a byte of the seed's
// (NaN, small numbers or zeros) first. Results must not change by a bit: what does is a race, or a value read
// before it was written.
#pragma once

#include <cstdint>

namespace tachy {

// 0: off. Read once; throws invalid_argument for what is no number.
uint64_t stress_seed();

// Stops this thread for a while, or not; returns at once where stress is off.
void stress_pause();

// The byte that fresh memory is filled with.
int stress_byte();

}  // namespace tachy
