// Cases of attention over lists of key blocks.
#pragma once

#include "ops/attention/attention_case.h"

namespace tachy::ops {

// The number of (query, key) pairs in the lists of all heads; a partial block counts as a whole one.
inline double listed_pairs(const AttentionCase& s) {
  const int64_t blocks = BlockLists::blocks_of(s.lq);
  double pairs = 0;
  for (int64_t i = 0; i < s.b * s.h * blocks; ++i) {
    const int64_t queries = std::min(BlockLists::kTokens, s.lq - i % blocks * BlockLists::kTokens);
    const int64_t list = s.one_list ? i % (s.h * blocks) : i;
    pairs += static_cast<double>(queries * listed_of(s, list) * BlockLists::kTokens);
  }
  return pairs;
}

// Moves `begin`, the start of a sample of kSampledRows queries, so that the sample lies in one block of
// queries, and returns that block's lists.
inline BlockLists list_of_rows(const BlockLists& lists, int64_t& begin) {
  const int64_t block = begin / BlockLists::kTokens;
  begin = std::min(begin, (block + 1) * BlockLists::kTokens - kSampledRows);
  return {lists.indices.slice(2, block, block + 1), lists.counts.slice(2, block, block + 1)};
}

// Adds cases with fewer keys than a block has, partial last blocks, lists without a block, and all blocks
// listed. add_f32 adds a case only in float32.
template <class Add, class AddF32>
void add_attention_list_cases(Add&& add, AddF32&& add_f32) {
  add(CaseKind::tiny, {.b = 1, .lq = 5, .lk = 9, .h = 2, .d = 8, .lse = true, .listed = 100});
  add(CaseKind::tiny,
      {.b = 2, .lq = 150, .lk = 300, .h = 2, .d = 128, .lse = true, .listed = 60, .uneven = true});
  add(CaseKind::tiny, {.b = 2,
                       .lq = 300,
                       .lk = 1000,
                       .h = 3,
                       .d = 64,
                       .lse = true,
                       .listed = 40,
                       .uneven = true,
                       .one_list = true});
  add(CaseKind::tiny, {.b = 1, .lq = 257, .lk = 384, .h = 2, .d = 128, .lse = true, .listed = 100});
  add(CaseKind::odd,
      {.b = 2, .lq = 140, .lk = 333, .h = 2, .d = 20, .lse = true, .listed = 50, .uneven = true});
  add(CaseKind::odd, {.b = 1, .lq = 129, .lk = 600, .h = 1, .d = 300, .accumulate = true, .listed = 50});
  // Lists differ much in length: in a few units, none of which a GPU cuts along its list; in one unit and in
  // some, all of which it cuts; and in more units than it has multiprocessors, of which it cuts the last
  // ones.
  add(CaseKind::tiny,
      {.b = 2, .lq = 300, .lk = 1700, .h = 3, .d = 24, .lse = true, .listed = 50, .ragged = true});
  add(CaseKind::tiny, {.b = 1, .lq = 100, .lk = 4200, .h = 1, .d = 128, .lse = true, .listed = 100});
  add(CaseKind::tiny,
      {.b = 1, .lq = 400, .lk = 4200, .h = 2, .d = 40, .lse = true, .listed = 50, .ragged = true});
  add(CaseKind::real,
      {.b = 1, .lq = 3500, .lk = 3000, .h = 5, .d = 64, .lse = true, .listed = 50, .ragged = true});
  add(CaseKind::real, {.b = 1, .lq = 4096, .lk = 4096, .h = 2, .d = 128, .listed = 30});
  // Nothing is subtracted from these scores; some rows are usual, others must be computed again.
  for (const float offset : {0.0f, 1.5f, -1.5f})
    for (const bool ragged : {false, true})
      add_f32(CaseKind::tiny, {.b = 1,
                               .lq = ragged ? 200 : 600,
                               .lk = ragged ? 4200 : 1500,
                               .h = ragged ? 1 : 2,
                               .d = ragged ? 64 : 128,
                               .lse = true,
                               .powers = true,
                               .offset_q = offset,
                               .listed = 50,
                               .uneven = !ragged,
                               .ragged = ragged});
}

// Adds cases that may round to 8 bits. Some lists are empty, and the last block of all, which is not whole, stands
// anywhere in others.
template <class Add>
void add_attention_eight_bit_list_cases(Add&& add) {
  add(CaseKind::tiny,
      {.b = 2, .lq = 150, .lk = 300, .h = 2, .d = 128, .lse = true, .listed = 60, .uneven = true});
  add(CaseKind::tiny,
      {.b = 1, .lq = 400, .lk = 4200, .h = 2, .d = 128, .lse = true, .listed = 50, .ragged = true});
  add(CaseKind::tiny, {.b = 2,
                       .lq = 300,
                       .lk = 1000,
                       .h = 3,
                       .d = 64,
                       .lse = true,
                       .listed = 40,
                       .uneven = true,
                       .one_list = true});
  for (const float sharp : {5.0f, 100.0f})
    add(CaseKind::tiny,
        {.b = 1, .lq = 300, .lk = 1500, .h = 2, .d = 128, .lse = true, .sharp = sharp, .listed = 50});
}

}  // namespace tachy::ops
