// How units of flash_sm90.cuh are distributed when keys are listed. Lists differ in length, so units are
// not distributed beforehand: a free block takes the next one. The loading thread draws a ticket
// and passes the unit to the two warpgroups beside the queries (a place for each in Handed90, guarded
// by the queries' barriers).
//
//   order      heads one after another, so that those at work share k and v in the second-level cache; within
//              a head the longest lists first. Blocks of threads that begin together then have lists of about
//              the same length, whose blocks are in the order of the keys: they read the same keys at about
//              the same time.
//   last round units that do not fill a round of all blocks of threads are cut into pieces of equal shares of
//              their lists, handed out last, which flash90_merge combines.
//
// flash90_order makes the order from the lists, which may have been written on the device, and resets the
// tickets, so that a captured launch can be replayed. Which units are cut follows from the number of units
// and of multiprocessors, and where they are cut from the unit's own list: no unit's result depends on the
// other lists or on who computes it.
#pragma once

#include "ops/attention/flash_sm90_work.cuh"

namespace tachy::ops::flash {

// The step with which a piece of a unit begins. If steps cannot be divided evenly, the
// first pieces have one more.
__device__ inline int piece_begin(int steps, int pieces, int i) {
  return steps / pieces * i + min(steps % pieces, i);
}

// The unit that the loading thread hands to the warpgroups.
template <class C>
struct Handed90 {
  int4 places[C::kQStages][2];
  __device__ void put(int index, int group, const Segment90& s) {
    places[index][group] = make_int4(s.unit, s.begin, s.end, s.share);
  }
  __device__ Segment90 get(int index, int group) const {
    const int4 s = places[index][group];
    return {s.x, s.y, s.z, s.w};
  }
};

// Called by the loading thread: returns the next unit or piece, and lets `walk` enter it;
// returns unit -1 if none is left.
__device__ inline Segment90 draw_ticket(const Params90& p, ListWalk90& walk) {
  const int ticket = static_cast<int>(atomicAdd(p.ticket, 1u)), piece = ticket - p.whole_units;
  if (piece < 0) {
    const int unit = p.order[ticket];
    walk.enter(unit);
    return {unit, 0, walk.steps(), -1};
  }
  if (piece >= p.cut_units * p.pieces) return {-1, 0, 0, -1};
  const int unit = p.whole_units + piece / p.pieces, i = piece % p.pieces;
  walk.enter(unit);
  return {unit, piece_begin(walk.steps(), p.pieces, i), piece_begin(walk.steps(), p.pieces, i + 1), piece};
}

// Fills p.order: for each head its whole units, the longest list first, and equal ones in their order. There
// is a block of threads for each head of a sample; each thread finds the place of its unit.
template <class C>
__global__ void __launch_bounds__(256) flash90_order(const __grid_constant__ Params90 p) {
  static_assert(C::kHandsOut);
  __shared__ int counts[256];
  const int first = static_cast<int>(blockIdx.x) * p.units_per_head;
  const int head = static_cast<int>(blockIdx.x) % p.heads, batch = static_cast<int>(blockIdx.x) / p.heads;
  const int units = min(p.units_per_head, p.whole_units - first);  // none for a head whose units are all cut
  if (first == 0 && threadIdx.x == 0) *p.ticket = 0;
  for (int begin = 0; begin < units; begin += 256) {
    const int unit = begin + static_cast<int>(threadIdx.x);
    const int count = unit < units ? p.lists.count(batch, head, unit) : 0;
    int place = 0;
    for (int other = 0; other < units; other += 256) {
      const int there = min(256, units - other);
      __syncthreads();
      if (static_cast<int>(threadIdx.x) < there)
        counts[threadIdx.x] = p.lists.count(batch, head, other + static_cast<int>(threadIdx.x));
      __syncthreads();
      for (int i = 0; i < there; ++i) place += counts[i] > count || (counts[i] == count && other + i < unit);
    }
    if (unit < units) p.order[first + place] = first + unit;
  }
}

}  // namespace tachy::ops::flash
