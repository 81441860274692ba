// Attention: softmax(q·kᵀ·scale + mask)·v for q [B, Lq, H, D] and k, v [B, Lk, Hk, D], where Hk divides H:
// query head h reads head h / (H / Hk). The mask is added to the scores and broadcasts to [B, H, Lq, Lk];
// -inf hides a key. With `causal`, query i sees keys up to i + causal_offset, and with a window only the last
// ones of these. A query that sees no key gives zeros.
//
// The op in src/ops takes as many heads of keys as of queries and one bias for a whole batch. So it is called
// once for each query head of a group (strides skip the others; nothing is copied), and once for each sample
// if the mask differs between samples and between queries. If there is only one query, as when a language
// model writes, the heads of a group are treated as that many queries of one head, whose keys are read once.
#include <algorithm>

#include "bind/convert.h"
#include "bind/ops.h"
#include "bind/rows.h"
#include "ops/attention/attention_impl.h"

namespace tachy::python {
namespace {

struct Problem {
  const Tensor &q, &k, &v, &mask;
  double scale;
  bool causal;
  int64_t causal_offset;
  int64_t window = 0;
  bool open = false;  // whether causal_offset may be beyond the last key
  explicit Problem(Inputs in, bool windowed = false)
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

void expect_problem(const char* op, const Problem& p) {
  for (const auto& [name, t] : {std::pair("q", &p.q), std::pair("k", &p.k), std::pair("v", &p.v)}) {
    expect_value(op, name, *t);
    require(t->rank == 4, "{}: expected {} [batch, tokens, heads, head dim], got {}", op, name, shown(*t));
    require(t->dtype == p.q.dtype, "{}: expected {} {} as q, got {}", op, name, dtype_name(p.q.dtype),
            dtype_name(t->dtype));
  }
  require(p.k.dim(0) == p.q.dim(0) && p.k.dim(3) == p.q.dim(3) && p.k.dim(1) >= 1 && p.k.dim(2) >= 1,
          "{}: expected k [{}, at least 1, heads, {}] beside q, got {}", op, p.q.dim(0), p.q.dim(3),
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

// The mask in the ops' form, [B, H, Lq, Lk] with a stride of 0 along axes on which the values are the same.
struct Mask {
  Tensor all;
  bool of_keys = false;     // whether it is the same for every head and query
  bool of_samples = false;  // whether it differs between samples
  Mask(const Problem& p, Context& context) {
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
  bool sample_by_sample() const { return all.defined() && !of_keys && of_samples; }
};

// Returns every `step`-th head, beginning with `first`.
Tensor heads(const Tensor& t, int axis, int64_t first, int64_t step) {
  if (!t.defined() || step == 1) return t;
  Tensor part = t.slice(axis, first, t.dims[axis]);
  part.dims[axis] = (t.dims[axis] - first + step - 1) / step;
  part.strides[axis] *= step;
  return part;
}
// Turns the heads of each group into queries of one head: [.., queries = 1, heads] becomes
// [.., group, heads / group].
Tensor folded(Tensor t, int query_axis, int head_axis, int64_t group) {
  if (!t.defined()) return t;
  t.dims[query_axis] = group, t.strides[query_axis] = t.strides[head_axis];
  t.dims[head_axis] /= group, t.strides[head_axis] *= group;
  return t;
}
Tensor samples(const Tensor& t, int64_t begin, int64_t end) {
  return t.defined() ? t.slice(0, begin, end) : t;
}

// Calls the op as the problem requires: call(begin, end, first head, the args without their tensors).
template <class Call>
void for_calls(const Problem& p, const Mask& mask, int64_t group, Call&& call) {
  const int64_t step = mask.sample_by_sample() ? 1 : p.q.dim(0);
  for (int64_t begin = 0; begin < p.q.dim(0); begin += step) {
    for (int64_t j = 0; j < group; ++j) {
      ops::AttentionArgs args;
      args.scale = static_cast<float>(p.scale);
      args.causal = p.causal;
      args.causal_offset = p.causal_offset;
      args.window = p.window;
      if (mask.all.defined() && mask.of_keys)
        args.key_bias = samples(mask.all, begin, begin + step).select(1, 0).select(1, 0);
      else if (mask.all.defined())
        args.bias = heads(mask.all.select(0, begin), 0, j, group);
      call(begin, begin + step, j, args);
    }
  }
}

// Returns `t` in the dtype in which the op computes, with its last dim contiguous.
Tensor operand(const Tensor& t, Context& context) {
  const DType work = work_dtype(t.dtype, context);
  return t.dtype == work && t.inner_contiguous() ? t : contiguous_as(t, work, context);
}

void compute(const Problem& p, const Tensor& out, const Tensor& lse, Context& context) {
  Mask mask(p, context);
  Tensor q = operand(p.q, context), k = operand(p.k, context), v = operand(p.v, context);
  const bool there = out.dtype == q.dtype && out.inner_contiguous();
  const Tensor result = there ? out : context.scratch(q.dtype, out.shape());
  Tensor to = result, sums = lse;
  int64_t group = p.group();
  const int64_t seen = p.causal ? std::min(p.k.dim(1), p.causal_offset + 1) : p.k.dim(1);  // the keys that a
                                                                                           // first query sees
  const int64_t unseen = p.window == 0 ? 0 : std::max<int64_t>(0, p.causal_offset + 1 - p.window);
  const bool fold = group > 1 && p.q.dim(1) == 1 && unseen < seen;
  if (fold) {
    q = folded(q, 1, 2, group), to = folded(to, 1, 2, group), sums = folded(sums, 2, 1, group);
    mask.all = folded(mask.all, 2, 1, group);
    if (mask.all.defined()) mask.all = mask.all.slice(3, unseen, seen);
    k = k.slice(1, unseen, seen), v = v.slice(1, unseen, seen);
    group = 1;
  }
  context.compute([&](Stream& stream) {
    for_calls(p, mask, group, [&](int64_t begin, int64_t end, int64_t j, ops::AttentionArgs& args) {
      if (fold) args.causal = false, args.causal_offset = args.window = 0;
      args.q = samples(heads(q, 2, j, group), begin, end);
      args.k = samples(k, begin, end), args.v = samples(v, begin, end);
      args.out = samples(heads(to, 2, j, group), begin, end);
      args.lse = samples(heads(sums, 1, j, group), begin, end);
      q.dtype == DType::f64 ? ops::attention_ref(args, stream) : ops::attention(args, stream);
    });
  });
  if (!there) convert(result, out, context);
}

Results results(Inputs in) {
  const Problem p(in, true);
  expect_problem("attention", p);
  return {Result::contiguous(p.q.dtype, p.q.shape())};
}

void run(Inputs in, std::span<const Tensor> out, Context& context) {
  Problem p(in, true);
  p.end_at_last_key();
  compute(p, out[0], {}, context);
}

Results lse_results(Inputs in) {
  const Problem p(in);
  expect_problem("attention_lse", p);
  return {Result::contiguous(p.q.dtype, p.q.shape()),
          Result::contiguous(parameter_dtype(p.q.dtype), {p.q.dim(0), p.q.dim(2), p.q.dim(1)})};
}

void run_lse(Inputs in, std::span<const Tensor> out, Context& context) {
  compute(Problem(in), out[0], out[1], context);
}

Results backward_results(Inputs in) {
  const char* op = "attention_backward";
  const Problem p(in);
  expect_problem(op, p);
  require(p.group() == 1, "{}: expected as many heads of k as of q, got {} and {}", op, p.k.dim(2),
          p.q.dim(2));
  const Tensor &dout = in[7].tensor, &out = in[8].tensor, &lse = in[9].tensor;
  expect_beside(op, "dout", dout, "q", p.q);
  expect_beside(op, "out", out, "q", p.q);
  expect_shape(op, "lse", lse, {p.q.dim(0), p.q.dim(2), p.q.dim(1)});
  expect_dtype(op, "lse", lse, parameter_dtype(p.q.dtype));
  const Result keys = Result::contiguous(p.k.dtype, p.k.shape());
  return {Result::contiguous(p.q.dtype, p.q.shape()), keys, keys};
}

void run_backward(Inputs in, std::span<const Tensor> made, Context& context) {
  const Problem p(in);
  const Mask mask(p, context);
  GradientPass pass(context, p.q.dtype);
  const Tensor q = pass.whole(p.q), k = pass.whole(p.k), v = pass.whole(p.v), dout = pass.whole(in[7].tensor),
               out = pass.whole(in[8].tensor), lse = contiguous_as(in[9].tensor, in[9].tensor.dtype, context);
  const Tensor dq = pass.result(made[0]), dk = pass.result(made[1]), dv = pass.result(made[2]);
  context.compute([&](Stream& stream) {
    for_calls(p, mask, 1, [&](int64_t begin, int64_t end, int64_t, ops::AttentionArgs& args) {
      const auto part = [&](const Tensor& t) { return samples(t, begin, end); };
      args.q = part(q), args.k = part(k), args.v = part(v), args.out = part(out), args.lse = part(lse);
      ops::attention_backward(
          {.forward = args, .dout = part(dout), .dq = part(dq), .dk = part(dk), .dv = part(dv)}, stream);
    });
  });
  pass.finish();
}

}  // namespace

const Op kAttention{
    "attention",
    "(Tensor q, Tensor k, Tensor v, Tensor? mask, float scale, bool causal, int causal_offset, int window) "
    "-> Tensor",
    results, run};
const Op kAttentionLse{"attention_lse",
                       "(Tensor q, Tensor k, Tensor v, Tensor? mask, float scale, bool causal, int "
                       "causal_offset) -> (Tensor, Tensor)",
                       lse_results, run_lse};
const Op kAttentionBackward{"attention_backward",
                            "(Tensor q, Tensor k, Tensor v, Tensor? mask, float scale, bool causal, int "
                            "causal_offset, Tensor dout, Tensor out, Tensor lse) -> (Tensor, Tensor, Tensor)",
                            backward_results, run_backward};

}  // namespace tachy::python
