#include "bind/attention_problem.h"

#include "bind/rows.h"

namespace tachy::python {

void expect_problem(const char* op, const AttentionProblem& p) {
  for (const auto& [name, t] : {std::pair("q", &p.q), std::pair("k", &p.k), std::pair("v", &p.v)}) {
    expect_value(op, name, *t);
    require(t->rank == 4, "{}: expected {} [batch, tokens, heads, head dim], got {}", op, name, shown(*t));
    require(t->dtype == p.q.dtype, "{}: expected {} {} as q, got {}", op, name, dtype_name(p.q.dtype),
            dtype_name(t->dtype));
  }
  require(p.k.dim(0) == p.q.dim(0) && p.k.dim(3) == p.q.dim(3) && p.k.dim(2) >= 1,
          "{}: expected k [{}, keys, at least 1 head, {}] beside q, got {}", op, p.q.dim(0), p.q.dim(3),
          shown(p.k));
  require(p.q.dim(2) % p.k.dim(2) == 0, "{}: expected k with heads that divide q's {}, got {}", op,
          p.q.dim(2), p.k.dim(2));
  require(same_shape(p.v, p.k), "{}: expected v {} as k, got {}", op, shown(p.k), shown(p.v));
  require(p.causal || p.causal_offset == 0, "{}: expected causal beside causal_offset {}", op,
          p.causal_offset);
  require(p.window >= 0 && (p.causal || p.window == 0), "{}: expected window at least 0, with causal, got {}",
          op, p.window);
  require(p.causal_offset >= -p.q.dim(1) && (p.open || p.causal_offset <= p.k.dim(1)),
          "{}: expected causal_offset in [{}, {}], got {}", op, -p.q.dim(1), p.k.dim(1), p.causal_offset);
  if (!p.mask.defined()) return;
  expect_value(op, "mask", p.mask);
  const int64_t full[] = {p.q.dim(0), p.q.dim(2), p.q.dim(1), p.k.dim(1)};
  bool fits = p.mask.rank <= 4 && (p.mask.dtype == DType::f64) == (p.q.dtype == DType::f64);
  for (int i = 1; fits && i <= p.mask.rank; ++i)
    fits = p.mask.dim(-i) == full[4 - i] || (p.mask.dim(-i) == 1 && i > 1);
  require(fits, "{}: expected mask {} or with dims of 1 before the last, a float dtype beside {}, got {} {}",
          op, shown(full), dtype_name(p.q.dtype), shown(p.mask), dtype_name(p.mask.dtype));
}

AttentionMask::AttentionMask(const AttentionProblem& p, Context& context) {
  if (!p.mask.defined()) return;
  all = parameter(p.mask, p.q.dtype, context);
  const int64_t full[] = {p.q.dim(0), p.q.dim(2), p.q.dim(1), p.k.dim(1)};
  Tensor wide = all;
  wide.rank = 4;
  for (int i = 0; i < 4; ++i) {
    const int from = i - (4 - all.rank);
    const bool there = from >= 0 && all.dims[from] > 1;
    wide.dims[i] = full[i];
    wide.strides[i] = there ? all.strides[from] : 0;
  }
  wide.strides[3] = 1;
  all = wide;
  of_keys = wide.strides[1] == 0 && wide.strides[2] == 0;
  of_samples = wide.strides[0] != 0;
}

}  // namespace tachy::python
