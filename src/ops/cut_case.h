// Blocks of tokens that are cut to sizes of their own, for the cases of ops that take them.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/op_case.h"

namespace tachy::ops {

struct CutCase {
  int64_t tokens;
  int64_t most;  // tokens of the largest block
  bool cubes;    // cubes of 4x4x4 in a grid of 21x30x52 tokens, with smaller ones at its ends
};

// Where the blocks end: whole ones and smaller ones, down to one token, anywhere.
inline std::vector<int32_t> cut_ends(const CutCase& s) {
  std::vector<int32_t> ends;
  int64_t end = 0;
  const auto add = [&](int64_t count) {
    if (end < s.tokens) ends.push_back(static_cast<int32_t>(end = std::min(s.tokens, end + count)));
  };
  if (s.cubes) {
    for (int64_t t = 0; t < 21; t += 4)
      for (int64_t h = 0; h < 30; h += 4)
        for (int64_t w = 0; w < 52; w += 4)
          add(std::min<int64_t>(4, 21 - t) * std::min<int64_t>(4, 30 - h) * std::min<int64_t>(4, 52 - w));
    return ends;
  }
  const int64_t sizes[] = {s.most, 1 + s.most / 3, s.most, s.most, 1, s.most, (s.most + 1) / 2, s.most};
  for (size_t i = 0; end < s.tokens; ++i) add(sizes[i % 8]);
  return ends;
}
inline Tensor cut_tensor(CaseMemory& memory, const CutCase& s) {
  const std::vector<int32_t> ends = cut_ends(s);
  const Tensor t = memory.rows(static_cast<int64_t>(ends.size()), 2);
  std::copy(ends.begin(), ends.end(), memory.host(t).as<int32_t>());
  return t;
}

}  // namespace tachy::ops
