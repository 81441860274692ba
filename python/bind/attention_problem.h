// Attention's inputs as the bindings take them: what they must be, and the mask in the form of src/ops.
#pragma once

#include <algorithm>

#include "bind/convert.h"
#include "bind/ops.h"

namespace tachy::python {

struct AttentionProblem {
  const Tensor &q, &k, &v, &mask;
  double scale;
  bool causal;
  int64_t causal_offset;
  int64_t window = 0;
  bool open = false;  // whether causal_offset may be beyond the last key
  explicit AttentionProblem(Inputs in, bool windowed = false)
      : q(in[0].tensor),
        k(in[1].tensor),
        v(in[2].tensor),
        mask(in[3].tensor),
        scale(in[4].number),
        causal(in[5].integer),
        causal_offset(in[6].integer),
        window(windowed ? in[7].integer : 0),
        open(windowed) {}
  // Moves an end that lies beyond all keys (as in a window without an end) to the last key, without moving
  // the window's beginning.
  void end_at_last_key() {
    const int64_t beyond = std::max<int64_t>(0, causal_offset - k.dim(1));
    causal_offset -= beyond;
    if (window > 0) window = std::max<int64_t>(1, window - beyond);
  }
  int64_t group() const { return q.dim(2) / k.dim(2); }
};

// Throws invalid_argument that names `op` and the argument which does not fit.
void expect_problem(const char* op, const AttentionProblem& p);

// The mask in the ops' form, [B, H, Lq, Lk] with a stride of 0 along axes on which the values are the same.
struct AttentionMask {
  Tensor all;
  bool of_keys = false;     // whether it is the same for every head and query
  bool of_samples = false;  // whether it differs between samples
  AttentionMask(const AttentionProblem& p, Context& context);
  bool sample_by_sample() const { return all.defined() && !of_keys && of_samples; }
};

}  // namespace tachy::python
