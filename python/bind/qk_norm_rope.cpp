// Queries and keys of a self-attention in one pass: RMSNorm over all channels C = heads · D, then rotary
// positions on each head, with neighbouring channels as pairs. q and k are [B, L, C] and may be slices of one
// projection; the results are [B, L, heads, D]. They are rounded once.
#include "bind/convert.h"
#include "bind/ops.h"
#include "bind/rows.h"
#include "ops/qk_norm_rope/qk_norm_rope_impl.h"

namespace tachy::python {
namespace {

constexpr int64_t kSlabValues = int64_t{1} << 18;

struct Forward {
  const Tensor &q, &k, &q_weight, &k_weight, &cos, &sin;
  int64_t heads;
  float eps;
  // `first` is the index of q among the arguments.
  explicit Forward(Inputs in, size_t first = 0)
      : q(in[first].tensor),
        k(in[first + 1].tensor),
        q_weight(in[first + 2].tensor),
        k_weight(in[first + 3].tensor),
        cos(in[first + 4].tensor),
        sin(in[first + 5].tensor),
        heads(in[first + 6].integer),
        eps(static_cast<float>(in[first + 7].number)) {}
};

void expect_problem(const char* op, const Forward& a) {
  expect_value(op, "q", a.q);
  require(a.q.rank == 3, "{}: expected q [batch, tokens, channels], got {}", op, shown(a.q));
  const int64_t channels = a.q.dim(2);
  require(a.heads >= 1 && channels % (2 * a.heads) == 0,
          "{}: expected heads that share q's {} channels, an even number each, got {}", op, channels,
          a.heads);
  expect_beside(op, "k", a.k, "q", a.q);
  expect_vector(op, "q_weight", a.q_weight, channels, a.q);
  expect_vector(op, "k_weight", a.k_weight, channels, a.q);
  for (const auto& [name, t] : {std::pair("cos", &a.cos), std::pair("sin", &a.sin)}) {
    expect_value(op, name, *t);
    require(t->rank == 2 && t->dim(0) == a.q.dim(1) && t->dim(1) == channels / a.heads / 2,
            "{}: expected {} [{}, {}], got {}", op, name, a.q.dim(1), channels / a.heads / 2, shown(*t));
  }
}

Results results(Inputs in) {
  const Forward a(in);
  expect_problem("qk_norm_rope", a);
  const Result heads = Result::contiguous(a.q.dtype, {a.q.dim(0), a.q.dim(1), a.heads, a.q.dim(2) / a.heads});
  return {heads, heads};
}

void norm_and_rotate(const ops::QkNormRopeArgs& args, Stream& stream) {
  args.x.dtype == DType::f64 ? ops::qk_norm_rope_ref(args, stream) : ops::qk_norm_rope(args, stream);
}

// Uses the tensors as they are if the op takes them; otherwise it takes copies on a GPU, and a slab of tokens
// at a time on the CPU.
void run(Inputs in, std::span<const Tensor> out, Context& context) {
  const Forward a(in);
  const DType work = work_dtype(a.q.dtype, context);
  ops::QkNormRopeArgs args{.weight = parameter(a.q_weight, a.q.dtype, context),
                           .eps = a.eps,
                           .heads = static_cast<int>(a.heads),
                           .cos = contiguous_as(a.cos, parameter_dtype(a.q.dtype), context),
                           .sin = contiguous_as(a.sin, parameter_dtype(a.q.dtype), context),
                           .weight2 = parameter(a.k_weight, a.q.dtype, context)};
  const Tensor y = out[0].view({a.q.dim(0), a.q.dim(1), a.q.dim(2)}),
               y2 = out[1].view({a.q.dim(0), a.q.dim(1), a.q.dim(2)});
  const auto fits = [&](const Tensor& t) { return t.dtype == work && t.inner_contiguous(); };
  if (context.on_gpu() || (fits(a.q) && fits(a.k))) {
    args.x = fits(a.q) ? a.q : contiguous_as(a.q, work, context), args.y = y;
    args.x2 = fits(a.k) ? a.k : contiguous_as(a.k, work, context), args.y2 = y2;
    return norm_and_rotate(args, context.stream());
  }
  const int64_t tokens = a.q.dim(1), channels = a.q.dim(2);
  const int64_t step = std::min(tokens, std::max<int64_t>(1, kSlabValues / channels));
  const Tensor slabs = context.scratch(work, {2, step, channels});
  for (int64_t b = 0; b < a.q.dim(0); ++b)
    for (int64_t begin = 0; begin < tokens; begin += step) {
      const int64_t end = std::min(tokens, begin + step);
      const auto part = [&](const Tensor& t) { return t.slice(0, b, b + 1).slice(1, begin, end); };
      ops::QkNormRopeArgs here = args;
      here.cos = args.cos.slice(0, begin, end), here.sin = args.sin.slice(0, begin, end);
      here.x = here.y = slabs.slice(0, 0, 1).slice(1, 0, end - begin);
      here.x2 = here.y2 = slabs.slice(0, 1, 2).slice(1, 0, end - begin);
      convert(part(a.q), here.x, context), convert(part(a.k), here.x2, context);
      norm_and_rotate(here, context.stream());
      convert(here.y, part(y), context), convert(here.y2, part(y2), context);
    }
}

Results backward_results(Inputs in) {
  const char* op = "qk_norm_rope_backward";
  const Forward a(in, 2);
  expect_problem(op, a);
  for (const auto& [name, t] : {std::pair("dq", &in[0].tensor), std::pair("dk", &in[1].tensor)}) {
    expect_value(op, name, *t);
    expect_shape(op, name, *t, {a.q.dim(0), a.q.dim(1), a.heads, a.q.dim(2) / a.heads});
    expect_dtype(op, name, *t, a.q.dtype);
  }
  const Result whole = Result::contiguous(a.q.dtype, a.q.shape());
  const auto trained = [&](const Tensor& weight) { return gradient_result(wanted(weight, in[10].integer)); };
  return {whole, whole, trained(a.q_weight), trained(a.k_weight)};
}

void run_backward(Inputs in, std::span<const Tensor> out, Context& context) {
  const Forward a(in, 2);
  GradientPass pass(context, a.q.dtype);
  const Tensor cos = contiguous_as(a.cos, parameter_dtype(a.q.dtype), context),
               sin = contiguous_as(a.sin, parameter_dtype(a.q.dtype), context);
  const auto side = [&](size_t i, const Tensor& x, const Tensor& weight) {
    return ops::QkNormRopeBackwardArgs{
        .x = pass.whole(x),
        .weight = parameter(weight, a.q.dtype, context),
        .eps = a.eps,
        .heads = static_cast<int>(a.heads),
        .cos = cos,
        .sin = sin,
        .dy = pass.whole(in[i].tensor).view({a.q.dim(0), a.q.dim(1), a.q.dim(2)}),
        .dx = pass.result(out[i]),
        .dweight = pass.parameter_result(wanted(weight, in[10].integer), out[i + 2])};
  };
  const auto of_q = side(0, a.q, a.q_weight), of_k = side(1, a.k, a.k_weight);
  context.compute([&](Stream& stream) {
    ops::qk_norm_rope_backward(of_q, stream);
    ops::qk_norm_rope_backward(of_k, stream);
  });
  pass.finish();
}

}  // namespace

const Op kQkNormRope{"qk_norm_rope",
                     "(Tensor q, Tensor k, Tensor? q_weight, Tensor? k_weight, Tensor cos, Tensor sin, "
                     "int heads, float eps) -> (Tensor, Tensor)",
                     results, run};
const Op kQkNormRopeBackward{"qk_norm_rope_backward",
                             "(Tensor dq, Tensor dk, Tensor q, Tensor k, Tensor? q_weight, Tensor? k_weight, "
                             "Tensor cos, Tensor sin, int heads, float eps, bool parameters) -> "
                             "(Tensor, Tensor, Tensor, Tensor)",
                             backward_results, run_backward};

}  // namespace tachy::python
