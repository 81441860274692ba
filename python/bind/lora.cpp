// Low-rank adapters beside a linear layer: y = Σ_i scale_i · (x · A_iᵀ) · B_iᵀ, the sum of all adapters or,
// with an index, only each row's own. x [..., K], a [n, r, K], b [n, N, r] give y [..., N]; a single adapter
// may be given as a [r, K] and b [N, r]. On the CPU a and b may be 16-bit as they are; on a GPU they have x's
// dtype. Gradients are products of torch (_gradients.py): the op in src/ops has only a definition of its
// backward pass.
#include <algorithm>

#include "bind/convert.h"
#include "bind/ops.h"
#include "bind/rows.h"
#include "ops/lora/lora_impl.h"

namespace tachy::python {
namespace {

// Returns a matrix as a group of one.
Tensor group(const Tensor& t) {
  if (t.rank != 2) return t;
  Tensor one = t;
  one.rank = 3;
  for (int i = 2; i > 0; --i) one.dims[i] = t.dims[i - 1], one.strides[i] = t.strides[i - 1];
  one.dims[0] = 1, one.strides[0] = one.dims[1] * one.dims[2];
  return one;
}

struct Call {
  const Tensor& x;
  Tensor a, b;
  const Tensor &scales, &index;
  explicit Call(Inputs in)
      : x(in[0].tensor),
        a(group(in[1].tensor)),
        b(group(in[2].tensor)),
        scales(in[3].tensor),
        index(in[4].tensor) {}
  int64_t rows() const { return x.numel() / std::max<int64_t>(1, x.dim(-1)); }
};

Results results(Inputs in) {
  const char* op = "lora";
  const Call c(in);
  expect_value(op, "x", c.x);
  for (const auto& [name, t] : {std::pair("a", &c.a), std::pair("b", &c.b)}) {
    expect_value(op, name, *t);
    require(t->rank == 3, "{}: expected {} {}, got {}", op, name,
            name[0] == 'a' ? "[n, rank, in]" : "[n, out, rank]", shown(*t));
    require((t->dtype == DType::f64) == (c.x.dtype == DType::f64), "{}: expected {} {} beside {}, got {}", op,
            name, c.x.dtype == DType::f64 ? "f64" : "f32, f16 or bf16", dtype_name(c.x.dtype),
            dtype_name(t->dtype));
  }
  require(c.a.dim(2) == c.x.dim(-1) && c.a.dim(0) >= 1, "{}: expected a [at least 1, rank, {}], got {}", op,
          c.x.dim(-1), shown(c.a));
  require(c.b.dim(0) == c.a.dim(0) && c.b.dim(2) == c.a.dim(1), "{}: expected b [{}, out, {}], got {}", op,
          c.a.dim(0), c.a.dim(1), shown(c.b));
  require(in[1].tensor.rank == in[2].tensor.rank, "{}: expected b with {} dims as a, got {}", op,
          in[1].tensor.rank, in[2].tensor.rank);
  require(c.b.dtype == c.a.dtype, "{}: expected b {} as a, got {}", op, dtype_name(c.a.dtype),
          dtype_name(c.b.dtype));
  expect_vector(op, "scales", c.scales, c.a.dim(0), c.x);
  if (c.index.defined()) {
    require(c.index.dtype == DType::i32, "{}: expected index i32, got {}", op, dtype_name(c.index.dtype));
    require(c.index.rank == c.x.rank - 1 && std::equal(c.index.dims, c.index.dims + c.index.rank, c.x.dims),
            "{}: expected index with x's dims {} but the last, got {}", op, shown(c.x), shown(c.index));
    require(c.index.contiguous(), "{}: expected index {} contiguous, got strides", op, shown(c.index));
  }
  std::vector<int64_t> dims(c.x.dims, c.x.dims + c.x.rank);
  dims.back() = c.b.dim(1);
  return {Result::contiguous(c.x.dtype, dims)};
}

// Returns adapters in the op's form: with a contiguous last dim, and on a GPU in x's dtype.
Tensor adapters(const Tensor& t, const Tensor& x, Context& context) {
  const DType dtype = context.on_gpu() ? x.dtype : t.dtype;
  return t.dtype == dtype && t.inner_contiguous() ? t : contiguous_as(t, dtype, context);
}

void run(Inputs in, std::span<const Tensor> out, Context& context) {
  const Call c(in);
  GradientPass pass(context, c.x.dtype);  // this pass takes operands as a whole
  Tensor index = c.index;
  if (index.defined()) index = Tensor(index.data, index.dtype, {c.rows()}, index.device);
  const ops::LoraArgs args{.x = pass.rows(c.x),
                           .a = adapters(c.a, c.x, context),
                           .b = adapters(c.b, c.x, context),
                           .scales = parameter(c.scales, c.x.dtype, context),
                           .index = index,
                           .y = pass.result_rows(out[0])};
  context.compute([&](Stream& stream) {
    args.x.dtype == DType::f64 ? ops::lora_ref(args, stream) : ops::lora(args, stream);
  });
  pass.finish();
}

}  // namespace

const Op kLora{"lora", "(Tensor x, Tensor a, Tensor b, Tensor? scales, Tensor? index) -> Tensor", results,
               run};

}  // namespace tachy::python
