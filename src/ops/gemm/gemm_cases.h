// Cases of gemm: every epilogue, mapped weights of each dtype
// and packed ones, strided rows, remainders of both tiles.
#pragma once

#include "ops/gemm/gemm_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

struct GemmOptions {
  DType dtype = DType::f32;
  bool packed = false;
  Activation act = Activation::none;
  bool bias = false, multiply = false, residual = false, gate = false, row = false, strided = false,
       alias = false;
  Compute compute = Compute::f32;
  bool sampled = false;  // the definition computes only some rows
};

struct GemmCase {
  CaseKind kind;
  int64_t m, n, k;
  GemmOptions with;
  bool cpu = true;  // false for GPUs only
};

inline Tensor gemm_case_rows(CaseMemory& memory, const GemmCase& c, int64_t columns) {
  if (!c.with.strided) return memory.normal({c.m, columns});
  return memory.normal({c.m, columns + 5}).slice(1, 2, 2 + columns);
}

inline Tensor pack_gemm_case(CaseMemory& memory, const Tensor& weight, Compute compute) {
  const Tensor packed =
      memory.normal_as(DType::u8, {packed_gemm_bytes(weight.dim(0), weight.dim(1), compute)});
  ThreadPool pool(1);
  Arena arena(0);
  Stream stream{.arena = &arena, .pool = &pool, .precision = {.compute = compute}};
  if (!memory.blank()) pack_gemm_weight(weight, packed, stream);
  return packed;
}

inline GemmArgs make_gemm_args(CaseMemory& memory, const GemmCase& c) {
  GemmArgs args{.act = c.with.act};
  args.x = gemm_case_rows(memory, c, c.k);
  args.weight = c.with.dtype == DType::f32
                    ? memory.normal({c.n, c.k}, 1.0f / std::sqrt(static_cast<float>(c.k)))
                    : memory.normal_as(c.with.dtype, {c.n, c.k});
  if (c.with.bias) args.bias = memory.normal({c.n});
  if (c.with.multiply) args.multiply = gemm_case_rows(memory, c, c.n);
  if (c.with.gate) args.gate = memory.param({3, c.n});
  if (c.with.row) args.row = memory.rows(c.m, 3);
  if (c.with.residual) args.residual = gemm_case_rows(memory, c, c.n);
  if (c.with.alias)
    args.y = memory.inout(args.residual);
  else if (c.with.strided)
    args.y = memory.output({c.m, c.n + 3}).slice(1, 1, 1 + c.n);
  else
    args.y = memory.output({c.m, c.n});
  // This comes last, so that the same case with a mapped weight has the same values.
  if (c.with.packed) args.packed = pack_gemm_case(memory, args.weight, c.with.compute);
  return args;
}

inline BoundOp make_gemm_case(CaseMemory& memory, const GemmCase& c) {
  const GemmArgs args = make_gemm_args(memory, c);
  const auto bind = [&](const GemmArgs& a) {
    return bind_op("gemm", gemm, gemm_table(), gemm_working, a, {a.y}, c.with.compute);
  };
  BoundOp bound = bind(args);
  if (c.with.sampled) {
    std::vector<BoundOp> parts;
    for (const int64_t begin : sampled_rows(c.m)) {
      GemmArgs part = args;
      for (Tensor* t : {&part.x, &part.multiply, &part.row, &part.residual, &part.y})
        if (t->defined()) *t = t->slice(0, begin, begin + kSampledRows);
      parts.push_back(bind(part));
    }
    return define_parts(std::move(bound), std::move(parts));
  }
  // There are too few values for the yardstick to meet the unluckiest sum.
  if (c.m * c.n < 64) bound.factor = 2;
  return bound;
}

// The products of the models, for a GPU, where weights have the activations' dtype.
inline void add_gemm_gpu_cases(std::vector<GemmCase>& cases) {
  using enum CaseKind;
  using enum Activation;
  const auto add_gpu = [&](CaseKind kind, int64_t m, int64_t n, int64_t k, GemmOptions with) {
    with.sampled = m > 4 * kSampledRows;
    cases.push_back({kind, m, n, k, with});
    cases.back().cpu = false;
  };
  add_gpu(real, 1152, 1152, 384, {.bias = true});  // the shipped model: q, k and v of two branches
  add_gpu(real, 1152, 384, 384, {.bias = true});
  add_gpu(real, 1152, 1024, 384, {.act = gelu_tanh, .bias = true});
  add_gpu(real, 1152, 384, 1024, {.bias = true});
  add_gpu(real, 512, 4096, 4096, {});  // umT5-xxl, the longest prompt
  add_gpu(real, 512, 4096, 4096, {.residual = true, .alias = true});
  add_gpu(real, 512, 10240, 4096, {.act = gelu_tanh});
  add_gpu(real, 512, 10240, 4096, {.multiply = true});
  add_gpu(real, 512, 4096, 10240, {.residual = true, .alias = true});
  add_gpu(real, 16, 10240, 4096, {.act = gelu_tanh});  // a short prompt
  add_gpu(video, 32760, 4608, 1536, {.bias = true});   // Wan 1.3B at 81x480x832
  add_gpu(video, 32760, 1536, 1536, {.bias = true});
  add_gpu(video, 32760, 8960, 1536, {.act = gelu_tanh, .bias = true});
  add_gpu(video, 32760, 1536, 8960, {.bias = true});
  add_gpu(video, 32760, 1536, 1536, {.bias = true, .residual = true, .gate = true, .alias = true});
  add_gpu(video, 32760, 15360, 5120, {.bias = true});  // Wan 14B
  add_gpu(video, 32760, 5120, 5120, {.bias = true});
  add_gpu(video, 32760, 13824, 5120, {.act = gelu_tanh, .bias = true});
  add_gpu(video, 32760, 5120, 13824, {.bias = true});
}

inline std::vector<GemmCase> gemm_case_list() {
  using enum CaseKind;
  using enum Activation;
  std::vector<GemmCase> cases;
  const auto add_case = [&](const GemmCase& c) { cases.push_back(c); };
  add_case({tiny, 2, 3, 4, {.bias = true}});
  for (const auto& [packed, as] : {std::pair{false, Compute::f32},
                                   {true, Compute::f32},
                                   {false, Compute::bf16},
                                   {true, Compute::bf16}}) {
    const auto add = [&, compute = as](GemmCase c) {
      c.with.compute = compute;
      add_case(c);
    };
    add({odd, 1, 1, 3, {.packed = packed}});
    add({odd, 7, 5, 17, {.packed = packed, .act = silu, .bias = true}});
    add({odd, 65, 129, 17, {.packed = packed, .act = gelu_tanh, .multiply = true}});
    add({odd, 577, 129, 33, {.packed = packed, .act = gelu_erf, .bias = true, .residual = true}});
    add({odd, 193, 130, 384, {.packed = packed, .bias = true, .residual = true, .gate = true, .row = true}});
    add({odd,
         9,
         257,
         65,
         {.packed = packed, .residual = true, .gate = true, .strided = true, .alias = true}});
    add({odd, 385, 64, 31, {.packed = packed, .strided = true}});
    for (const DType dtype : {DType::bf16, DType::f16, DType::f8_e4m3, DType::f8_e5m2})
      add({odd, 5, 131, 67, {.dtype = dtype, .packed = packed, .bias = true}});
    // There are so many rows that they need several blocks of K, the last panel of one block of columns, and
    // several passes over the rows.
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3})
      add({odd, 131, 440, 1037, {.dtype = dtype, .packed = packed, .bias = true}});
    add({odd, 4133, 33, 40, {.packed = packed}});
  }
  // One tile of rows packs its own panels, several at a time, over several blocks of K.
  add_case({odd, 3, 170, 4200, {.bias = true, .compute = Compute::bf16}});
  // Every row consists of whole pieces of 16 bytes.
  add_case({tiny, 130, 264, 136, {.bias = true}});
  add_case({tiny, 77, 136, 200, {.act = gelu_tanh, .bias = true}});
  add_case({tiny, 77, 136, 200, {.act = silu, .bias = true, .multiply = true}});
  add_case({tiny, 200, 72, 64, {.bias = true, .residual = true}});
  add_case({tiny, 200, 72, 64, {.bias = true, .residual = true, .gate = true, .row = true, .alias = true}});
  add_case({tiny, 2, 9216, 256, {.act = silu, .bias = true}});
  for (const auto& [packed, as] : {std::pair{true, Compute::f32},
                                   {false, Compute::f32},
                                   {true, Compute::bf16},
                                   {false, Compute::bf16}}) {
    const GemmOptions base{
        .dtype = packed ? DType::f32 : DType::bf16, .packed = packed, .bias = true, .compute = as};
    const auto with = [&](Activation act, bool gated = false) {
      GemmOptions o = base;
      o.act = act, o.residual = o.gate = gated;
      return o;
    };
    add_case({real, 1152, 384, 384, base});  // the shipped model: two branches of 576 tokens
    add_case({real, 1152, 1024, 384, with(gelu_tanh)});
    add_case({real, 1152, 384, 1024, with(none, true)});
    add_case({real, 1560, 1536, 1536, base});  // Wan 1.3B, one frame of 480p
    add_case({real, 1560, 8960, 1536, with(gelu_tanh)});
    add_case({real, 512, 4096, 4096, base});  // umT5-XXL, a prompt
    add_case({real, 16, 4096, 4096, base});   // a short prompt
  }
  add_case({real, 2, 9216, 1536, {.dtype = DType::bf16, .bias = true}});  // a time projection
  add_gemm_gpu_cases(cases);
  return cases;
}

inline OpCase gemm_op_case(const GemmCase& c) {
  const auto flag = [](bool on, const char* name) { return on ? name : ""; };
  const auto name = fmt::format(
      "{}x{}x{}-{}{}{}-act{}{}{}{}{}{}{}{}", c.m, c.n, c.k, dtype_name(c.with.dtype),
      flag(c.with.packed, "-packed"), flag(c.with.compute == Compute::bf16, "-bf16"),
      static_cast<int>(c.with.act), flag(c.with.bias, "-bias"), flag(c.with.multiply, "-multiply"),
      flag(c.with.gate, "-gate"), flag(c.with.row, "-row"), flag(c.with.residual, "-residual"),
      flag(c.with.strided, "-strided"), flag(c.with.alias, "-alias"));
  const double bytes = 4.0 * c.m * (c.k + c.n) + static_cast<double>(c.n) * c.k *
                                                     (!c.with.packed ? dtype_size(c.with.dtype)
                                                      : c.with.compute == Compute::bf16 ? 2
                                                                                        : 4);
  OpCase made{"gemm",
              name,
              c.kind,
              bytes,
              2.0 * c.m * c.n * c.k,
              [c](CaseMemory& m) { return make_gemm_case(m, c); }};
  // On a GPU the weight has the activations' dtype.
  made.gpu = !c.with.packed && c.with.dtype == DType::f32 && c.with.compute == Compute::f32;
  made.cpu = c.cpu;
  return made;
}

inline std::vector<OpCase> gemm_cases() {
  std::vector<OpCase> cases;
  for (const GemmCase& c : gemm_case_list()) cases.push_back(gemm_op_case(c));
  return cases;
}

}  // namespace tachy::ops
