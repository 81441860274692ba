// The parameters of a case of attention, forward and backward, and its tensors.
#pragma once

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "ops/attention/attention_impl.h"
#include "ops/cut_case.h"
#include "ops/op_case.h"

namespace tachy::ops {

// One more range of keys.
struct RangeCase {
  int64_t lk;
  int64_t length = -1;  // how many keys exist, which only the device knows; -1 means all
  bool causal = false, biased = false;
  int64_t offset = 0, block = 1, window = 0;
};

struct AttentionCase {
  int64_t b, lq, lk, h, d;
  int64_t masked_every = 0;  // key_bias is -inf at every n-th key, or if this is -1 finfo.min everywhere
  bool bias = false, accumulate = false, fused = false;  // fused: q, k, v are slices of one [B, L, 3, H, D]
  bool causal = false, lse = false;
  int64_t offset = 0;  // causal_offset
  Compute compute = Compute::f32;
  bool finite = false;   // a key bias that masks nothing
  float sharp = 1;       // factor by which scores are larger than usual
  bool sampled = false;  // the definition answers only some queries
  bool powers = false;   // q contains the scale (kPowersOfTwo)
  // Is added to q's values, while 1 is added to k's, so that scores are far from 0.
  float offset_q = 0;
  int64_t length = -1, block = 1, window = 0;  // for the first range, as in RangeCase
  std::vector<RangeCase> more = {};
  // The percentage of key blocks that each block of queries lists; 0 means no lists. `uneven` lists one more
  // or fewer, and sometimes none; `ragged` lists any number from none to all.
  int64_t listed = 0;
  bool uneven = false, ragged = false, one_list = false;  // one_list: the whole batch shares its lists
  // If not 0, queries or keys are cut into blocks of their own sizes (cut_case.h), the largest of which has that many
  // tokens.
  int64_t cut_queries = 0, cut_keys = 0;
  bool cubes = false;
  int64_t alike = 0;  // the percentage of its blocks that every second list has in common with the one before
  bool eight_bits = false;
};

inline std::vector<int32_t> cut_ends(const AttentionCase& s, int64_t tokens, int64_t most) {
  return cut_ends({tokens, most, s.cubes});
}
inline int64_t query_blocks_of(const AttentionCase& s) {
  return s.cut_queries ? static_cast<int64_t>(cut_ends(s, s.lq, s.cut_queries).size())
                       : BlockLists::blocks_of(s.lq);
}
inline int64_t key_blocks_of(const AttentionCase& s) {
  return s.cut_keys ? static_cast<int64_t>(cut_ends(s, s.lk, s.cut_keys).size())
                    : BlockLists::blocks_of(s.lk);
}
inline BlockCuts cuts_of(CaseMemory& memory, const AttentionCase& s, int64_t tokens, int64_t most) {
  if (most == 0) return {};
  return {cut_tensor(memory, {tokens, most, s.cubes}), most};
}
// How many blocks the i-th list has.
inline int64_t listed_of(const AttentionCase& s, int64_t i) {
  const int64_t count = (s.listed * key_blocks_of(s) + 50) / 100;
  if (s.uneven && i % 5 == 1) return 0;
  if (s.ragged) return i % 7 == 3 ? 0 : i % 7 == 5 ? key_blocks_of(s) : i * 7919 % (key_blocks_of(s) + 1);
  return std::clamp<int64_t>(s.uneven ? count + i % 3 - 1 : count, 0, key_blocks_of(s));
}

// Lists some of the blocks; every other list is unsorted.
inline BlockLists lists_of(CaseMemory& memory, const AttentionCase& s) {
  if (s.listed == 0) return {};
  const int64_t batch = s.one_list ? 1 : s.b, blocks = query_blocks_of(s), all = key_blocks_of(s);
  const int64_t lists = batch * s.h * blocks;
  int64_t capacity = 1;
  for (int64_t i = 0; i < lists; ++i) capacity = std::max(capacity, listed_of(s, i));
  const Tensor indices = memory.rows(lists * capacity, 1 << 30), counts = memory.rows(lists, 2);
  std::vector<int32_t> order(static_cast<size_t>(all));
  for (int64_t i = 0; i < lists; ++i) {
    const int64_t count = listed_of(s, i);
    memory.host(counts).as<int32_t>()[i] = static_cast<int32_t>(count);
    // The list begins as random numbers, which say where to draw from.
    int32_t* list = memory.host(indices).as<int32_t>() + i * capacity;
    std::iota(order.begin(), order.end(), 0);
    const int64_t common = i % 2 == 1 ? std::min(count, listed_of(s, i - 1)) * s.alike / 100 : 0;
    for (int64_t j = 0; j < common; ++j) {
      list[j] = list[j - capacity];
      std::iter_swap(order.begin() + j, std::find(order.begin() + j, order.end(), list[j]));
    }
    for (int64_t j = common; j < count; ++j) {
      std::swap(order[static_cast<size_t>(j)], order[static_cast<size_t>(j + list[j] % (all - j))]);
      list[j] = order[static_cast<size_t>(j)];
    }
    if (i % 2 == 0) std::sort(list, list + count);
    for (int64_t j = count; j < capacity; ++j) list[j] = 0x7fffffff;  // these are never read
  }
  return {indices.view({batch, s.h, blocks, capacity}), counts.view({batch, s.h, blocks}),
          cuts_of(memory, s, s.lq, s.cut_queries), cuts_of(memory, s, s.lk, s.cut_keys)};
}

// A tensor with the number of keys that exist, where the op computes.
inline Tensor length_of(CaseMemory& memory, int64_t length) {
  if (length < 0) return {};
  const Tensor t = memory.rows(1, 2);
  *memory.host(t).as<int32_t>() = static_cast<int32_t>(length);
  return t;
}

inline KeyRange range_of(CaseMemory& memory, const AttentionCase& s, const RangeCase& r) {
  KeyRange range{.k = memory.normal({s.b, r.lk, s.h, s.d}), .v = memory.normal({s.b, r.lk, s.h, s.d})};
  range.length = length_of(memory, r.length);
  if (r.biased) range.key_bias = memory.param({s.b, r.lk}, 2), range.finite_bias = true;
  range.causal = r.causal, range.causal_offset = r.offset, range.causal_block = r.block;
  range.window = r.window;
  return range;
}

inline KeyRanges more_ranges(CaseMemory& memory, const AttentionCase& s) {
  if (s.more.empty()) return {};
  if (s.more.size() == 1) return {range_of(memory, s, s.more[0])};
  const KeyRange second = range_of(memory, s, s.more[0]), third = range_of(memory, s, s.more[1]);
  if (s.more.size() == 2) return {second, third};
  return {second, third, range_of(memory, s, s.more[2])};
}

inline std::string name_of(const RangeCase& r) {
  return fmt::format("+{}{}{}{}{}", r.lk, r.length >= 0 ? fmt::format("of{}", r.length) : "",
                     r.causal ? fmt::format("causal{}by{}", r.offset, r.block) : "",
                     r.window > 0 ? fmt::format("window{}", r.window) : "", r.biased ? "biased" : "");
}

inline std::string ranges_name(const AttentionCase& s) {
  std::string name;
  for (const RangeCase& r : s.more) name += name_of(r);
  if (s.eight_bits) name += "-8bits";
  if (s.listed > 0)
    name += fmt::format("-listed{}{}{}{}", s.listed, s.uneven ? "uneven" : "", s.ragged ? "ragged" : "",
                        s.one_list ? "once" : "");
  if (s.cut_keys > 0) name += fmt::format("-cut{}by{}{}", s.cut_queries, s.cut_keys, s.cubes ? "cubes" : "");
  if (s.alike > 0) name += fmt::format("-alike{}", s.alike);
  return name;
}

inline std::string attention_case_name(const AttentionCase& s) {
  return fmt::format("{}x{}x{}x{}x{}{}{}{}{}{}{}{}", s.b, s.lq, s.lk, s.h, s.d,
                     s.masked_every ? fmt::format("-mask{}", s.masked_every) : "", s.bias ? "-bias" : "",
                     s.accumulate ? "-accumulate" : "", s.fused ? "-fused" : "",
                     s.causal ? fmt::format("-causal{}", s.offset) : "", s.lse ? "-lse" : "",
                     s.compute == Compute::bf16 ? "-bf16" : "") +
         (s.finite ? "-keybias" : "") + (s.sharp != 1 ? fmt::format("-sharp{:g}", s.sharp) : "") +
         (s.powers ? "-powers" : "") + (s.offset_q != 0 ? fmt::format("{}", s.offset_q) : "") +
         (s.length >= 0 ? fmt::format("-of{}", s.length) : "") +
         (s.block > 1 ? fmt::format("-by{}", s.block) : "") +
         (s.window > 0 ? fmt::format("-window{}", s.window) : "") + ranges_name(s);
}

// The tensors of a case, with their values.
inline AttentionArgs attention_case_args(CaseMemory& memory, const AttentionCase& s) {
  AttentionArgs args{.scale = s.sharp / std::sqrt(static_cast<float>(s.d))};
  if (s.fused) {
    const Tensor qkv = memory.normal({s.b, s.lq, 3, s.h, s.d});
    args.q = qkv.select(2, 0), args.k = qkv.select(2, 1), args.v = qkv.select(2, 2);
  } else {
    const float spread = s.powers ? 1.44f * args.scale : 2;
    args.q = memory.normal({s.b, s.lq, s.h, s.d}, spread, s.offset_q);
    args.k = memory.normal({s.b, s.lk, s.h, s.d}, 1, s.offset_q != 0 ? 1.0f : 0.0f);
    args.v = memory.normal({s.b, s.lk, s.h, s.d});
    if (s.powers) args.scale = kPowersOfTwo;
  }
  if (s.masked_every) {
    args.key_bias = memory.param({s.b, s.lk});
    auto* values = memory.host(args.key_bias).as<float>();
    for (int64_t i = 0; i < s.b * s.lk; ++i) {
      float& value = values[i];
      if (s.masked_every < 0)
        value = std::numeric_limits<float>::lowest();
      else if (i % s.masked_every == 0)
        value = -std::numeric_limits<float>::infinity();
    }
  }
  if (s.finite) args.key_bias = memory.param({s.b, s.lk}, 2), args.finite_bias = true;
  if (s.bias) args.bias = memory.param({s.h, s.lq, s.lk});
  args.accumulate = s.accumulate, args.eight_bits = s.eight_bits;
  args.out = s.accumulate ? memory.inout(memory.normal({s.b, s.lq, s.h, s.d}))
                          : memory.output({s.b, s.lq, s.h, s.d});
  args.causal = s.causal, args.causal_offset = s.offset, args.causal_block = s.block;
  args.window = s.window;
  args.length = length_of(memory, s.length), args.more = more_ranges(memory, s);
  args.blocks = lists_of(memory, s);
  if (s.lse) args.lse = memory.output(DType::f32, {s.b, s.h, s.lq});
  return args;
}

}  // namespace tachy::ops
