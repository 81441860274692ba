// Small results that the blocks of one cooperative launch pass to one another through memory, without a
// barrier: a reader polls a note until it carries this launch's tag. A grid barrier would cost a fence, a
// counter and then the read, each of them a trip to the second-level cache; this costs one write and one read
// (group norm: 5.4 -> 3.2 us from the last sum to the statistics on an H200).
//   const uint32_t tag = open_page(board);             every thread that pins or reads
//   pin(note, values, tag);  read_note until pinned    each half of 8 bytes carries the tag: none is half new
//   leave(board, tag);                                 one thread of each block, when its block has read
// The last block to leave turns the page, so the notes of all earlier launches, whatever
// they were, have old tags.
#pragma once

#include <cstdint>

namespace tachy::device {

struct Note {
  uint64_t first, second;  // the value in the lower half, the tag in the upper one
};

struct Board {
  uint32_t* page;  // number of launches so far, and of blocks that have left this one
  Note* notes;
};

__device__ __forceinline__ uint32_t open_page(const Board& board) {
  uint32_t launches;
  asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(launches) : "l"(board.page) : "memory");
  return launches + 1;
}

__device__ __forceinline__ void pin(Note* note, float2 values, uint32_t tag) {
  const uint64_t upper = static_cast<uint64_t>(tag) << 32;
  asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};" ::"l"(note),
               "l"(upper | __float_as_uint(values.x)), "l"(upper | __float_as_uint(values.y))
               : "memory");
}

__device__ __forceinline__ Note read_note(const Note* note) {
  Note n;
  asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
               : "=l"(n.first), "=l"(n.second)
               : "l"(note)
               : "memory");
  return n;
}
__device__ __forceinline__ bool pinned(const Note& note, uint32_t tag) {
  return static_cast<uint32_t>(note.first >> 32) == tag && static_cast<uint32_t>(note.second >> 32) == tag;
}
__device__ __forceinline__ float2 values_of(const Note& note) {
  return make_float2(__uint_as_float(static_cast<uint32_t>(note.first)),
                     __uint_as_float(static_cast<uint32_t>(note.second)));
}

__device__ __forceinline__ void leave(const Board& board, uint32_t tag) {
  if (atomicAdd(board.page + 1, 1u) + 1 < gridDim.x) return;
  board.page[0] = tag, board.page[1] = 0;
}

}  // namespace tachy::device
