// Cases of attention over lists of key blocks.
#pragma once

#include "ops/attention/attention_case.h"

namespace tachy::ops {

// The number of (query, key) pairs in the lists of all heads; a partial last block counts as a whole one.
inline double listed_pairs(const AttentionCase& s) {
  const int64_t blocks = query_blocks_of(s);
  const std::vector<int32_t> ends = s.cut_queries ? cut_ends(s, s.lq, s.cut_queries) : std::vector<int32_t>();
  // Blocks that are cut have fewer tokens in the mean.
  const double keys = s.cut_keys ? static_cast<double>(s.lk) / static_cast<double>(key_blocks_of(s))
                                 : static_cast<double>(BlockLists::kTokens);
  double pairs = 0;
  for (int64_t i = 0; i < s.b * s.h * blocks; ++i) {
    const int64_t block = i % blocks, list = s.one_list ? i % (s.h * blocks) : i;
    int64_t queries = std::min(BlockLists::kTokens, s.lq - block * BlockLists::kTokens);
    if (s.cut_queries)
      queries = ends[static_cast<size_t>(block)] - (block > 0 ? ends[static_cast<size_t>(block - 1)] : 0);
    pairs += static_cast<double>(queries * listed_of(s, list)) * keys;
  }
  return pairs;
}

// Moves `begin`, the start of a sample of kSampledRows queries, so that the sample lies in one block of
// queries, and returns that block's lists.
inline BlockLists list_of_rows(const AttentionCase& s, const BlockLists& lists, int64_t& begin) {
  int64_t block = begin / BlockLists::kTokens;
  if (s.cut_queries) {  // the first rows of the last block before `begin` that has as many
    const std::vector<int32_t> ends = cut_ends(s, s.lq, s.cut_queries);
    const auto start = [&](int64_t i) { return i > 0 ? ends[static_cast<size_t>(i - 1)] : 0; };
    block = std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin();
    while (ends[static_cast<size_t>(block)] - start(block) < kSampledRows) --block;
    begin = start(block);
  }
  begin = std::min(begin, s.cut_queries ? begin : (block + 1) * BlockLists::kTokens - kSampledRows);
  return {.indices = lists.indices.slice(2, block, block + 1),
          .counts = lists.counts.slice(2, block, block + 1),
          .keys = lists.keys};
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

// Adds cases of blocks that are cut to sizes of their own: of queries and of keys, of keys alone, of one block, of lists
// without a block and with all of them, in any order, and of blocks that only one half of a pair lists.
template <class Add>
void add_attention_cut_cases(Add&& add) {
  const auto add_both = [&](CaseKind kind, AttentionCase s) {
    add(kind, s);
    s.cut_queries = 0;
    add(kind, s);
  };
  add_both(CaseKind::tiny, {.b = 1,
                            .lq = 5,
                            .lk = 9,
                            .h = 2,
                            .d = 8,
                            .lse = true,
                            .listed = 100,
                            .cut_queries = 4,
                            .cut_keys = 4});
  add_both(CaseKind::tiny, {.b = 2,
                            .lq = 300,
                            .lk = 700,
                            .h = 2,
                            .d = 128,
                            .lse = true,
                            .listed = 40,
                            .uneven = true,
                            .cut_queries = 64,
                            .cut_keys = 64});
  add_both(CaseKind::tiny, {.b = 2,
                            .lq = 400,
                            .lk = 1500,
                            .h = 3,
                            .d = 64,
                            .lse = true,
                            .listed = 50,
                            .ragged = true,
                            .cut_queries = 64,
                            .cut_keys = 64,
                            .alike = 60});
  add_both(CaseKind::tiny, {.b = 2,
                            .lq = 333,
                            .lk = 600,
                            .h = 2,
                            .d = 104,
                            .lse = true,
                            .listed = 30,
                            .one_list = true,
                            .cut_queries = 48,
                            .cut_keys = 27});
  add_both(CaseKind::tiny, {.b = 1,
                            .lq = 640,
                            .lk = 640,
                            .h = 2,
                            .d = 128,
                            .fused = true,
                            .lse = true,
                            .listed = 100,
                            .cut_queries = 64,
                            .cut_keys = 64});
  add_both(CaseKind::tiny, {.b = 1,
                            .lq = 500,
                            .lk = 2000,
                            .h = 2,
                            .d = 128,
                            .lse = true,
                            .sharp = 60,
                            .listed = 50,
                            .ragged = true,
                            .cut_queries = 64,
                            .cut_keys = 64});
  add_both(CaseKind::tiny, {.b = 1,
                            .lq = 50,
                            .lk = 60,
                            .h = 1,
                            .d = 128,
                            .accumulate = true,
                            .listed = 100,
                            .cut_queries = 64,
                            .cut_keys = 64});
  add_both(CaseKind::odd, {.b = 1,
                           .lq = 190,
                           .lk = 500,
                           .h = 2,
                           .d = 20,
                           .lse = true,
                           .listed = 60,
                           .ragged = true,
                           .cut_queries = 128,
                           .cut_keys = 100});
  add_both(CaseKind::odd,
           {.b = 1, .lq = 90, .lk = 300, .h = 1, .d = 200, .listed = 50, .cut_queries = 60, .cut_keys = 64});
  add_both(CaseKind::real, {.b = 1,
                            .lq = 3500,
                            .lk = 3000,
                            .h = 5,
                            .d = 64,
                            .lse = true,
                            .listed = 20,
                            .cut_queries = 64,
                            .cut_keys = 64});
  add_both(
      CaseKind::real,
      {.b = 1, .lq = 4096, .lk = 4096, .h = 2, .d = 128, .listed = 20, .cut_queries = 64, .cut_keys = 64});
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
