// TACHY_STRESS=SEED is for tests and for machines under suspicion: everything without a fixed duration is
// made to take a different time. Threads that write pieces of weights, copies to a GPU and its compute queue
// pause for up to a few milliseconds at random places, and memory that a GPU allocates is first filled with a
// byte of the seed's (NaN, small numbers or zeros). No bit of a result may change: if one does, there is a
// race, or a value is read before it was written.
#pragma once

#include <cstdint>

namespace tachy {

// 0: off. Read once; throws invalid_argument for a text that is not a number.
uint64_t stress_seed();

// Stops this thread for a while, or not; returns at once if stress is off.
void stress_pause();

// The byte that fills fresh memory.
int stress_byte();

}  // namespace tachy
