// Attention: softmax(q·kᵀ·scale + mask)·v for q [B, Lq, H, D] and k, v [B, Lk, Hk, D], where Hk divides H:
// query head h reads head h / (H / Hk). The mask is added to the scores and broadcasts to [B, H, Lq, Lk];
// -inf hides a key. With `causal`, query i sees keys up to i + causal_offset, and with a window only the last
// ones of these. A query that sees no key gives zeros; so do all queries where there are no keys at all.
//
// The op in src/ops takes as many heads of keys as of queries and one bias for a whole batch. So it is called
// once for each query head of a group (strides skip the others; nothing is copied), and once for each sample
// if the mask differs between samples and between queries. If there is only one query, as when a language
// model writes, the heads of a group are treated as that many queries of one head, whose keys are read once.
#include <algorithm>
#include <cmath>
#include <limits>

#include "bind/attention_problem.h"
#include "bind/rows.h"
#include "ops/attention/attention_impl.h"
#include "ops/choose_blocks/choose_blocks.h"

namespace tachy::python {
namespace {

using Problem = AttentionProblem;
using Mask = AttentionMask;

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

// The results where there are no keys, which the op in src/ops does not take: zeros, and -inf as the logarithm of a
// sum without terms.
void without_keys(const Tensor& out, const Tensor& lse, Context& context) {
  zero(out, context);
  if (!lse.defined()) return;
  const auto fill = [](const Tensor& to) {
    if (to.dtype == DType::f64)
      *to.as<double>() = -std::numeric_limits<double>::infinity();
    else
      *to.as<float>() = -std::numeric_limits<float>::infinity();
  };
  Tensor one = context.table("attention without keys", lse.dtype, {1}, fill);
  one.rank = lse.rank;
  for (int i = 0; i < lse.rank; ++i) one.dims[i] = lse.dims[i], one.strides[i] = 0;
  convert(one, lse, context);
}

// How much of attention is computed, and how exactly.
struct Effort {
  bool eight_bits = false;
  double kept = 1;  // the share of key blocks that each block of queries attends to
};

// The lists of key blocks that these queries attend to; none where all are kept.
ops::BlockLists chosen(const ops::AttentionArgs& a, double kept, Stream& stream) {
  const int64_t blocks = ops::chosen_blocks(a.k.dim(1));
  const int64_t keep = std::clamp<int64_t>(std::llround(kept * static_cast<double>(blocks)), 1, blocks);
  if (kept >= 1 || keep == blocks) return {};
  const ops::BlockLists lists{stream.arena->tensor(DType::i32, {a.q.dim(0), a.q.dim(2), blocks, keep}),
                              stream.arena->tensor(DType::i32, {a.q.dim(0), a.q.dim(2), blocks})};
  ops::choose_blocks({.q = a.q, .k = a.k, .keep = keep, .indices = lists.indices, .counts = lists.counts},
                     stream);
  return lists;
}

void compute(const Problem& p, const Tensor& out, const Tensor& lse, Context& context, Effort effort = {}) {
  if (p.k.dim(1) == 0) return without_keys(out, lse, context);
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
      args.eight_bits = effort.eight_bits;
      args.blocks = chosen(args, effort.kept, stream);
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

Results coarse_results(Inputs in) {
  const char* op = "attention_coarse";
  const Problem p(in);
  expect_problem(op, p);
  const double kept = in[8].number;
  require(p.q.dtype != DType::f64, "{}: expected q of at most 32 bits, got {}", op, shown(p.q));
  require(kept > 0 && kept <= 1, "{}: expected blocks in (0, 1], got {}", op, kept);
  require(kept == 1 || (!p.mask.defined() && !p.causal), "{}: expected no mask and no causal beside blocks",
          op);
  require(kept == 1 || (p.q.dim(1) == p.k.dim(1) && p.group() == 1),
          "{}: expected as many tokens and heads of k as of q beside blocks, got k {} and q {}", op,
          shown(p.k), shown(p.q));
  return {Result::contiguous(p.q.dtype, p.q.shape())};
}

void run_coarse(Inputs in, std::span<const Tensor> out, Context& context) {
  compute(Problem(in), out[0], {}, context, {.eight_bits = in[7].integer != 0, .kept = in[8].number});
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
  if (p.k.dim(1) == 0) return zero(made[0], context);  // the gradients of keys and values have no values
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
const Op kAttentionCoarse{"attention_coarse",
                          "(Tensor q, Tensor k, Tensor v, Tensor? mask, float scale, bool causal, int "
                          "causal_offset, bool eight_bits, float blocks) -> Tensor",
                          coarse_results, run_coarse};
const Op kAttentionBackward{"attention_backward",
                            "(Tensor q, Tensor k, Tensor v, Tensor? mask, float scale, bool causal, int "
                            "causal_offset, Tensor dout, Tensor out, Tensor lse) -> (Tensor, Tensor, Tensor)",
                            backward_results, run_backward};

}  // namespace tachy::python
