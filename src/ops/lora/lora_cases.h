// Cases of lora with the sum of all adapters or one adapter per row, with ranks that tiles divide or not, and
// with few and many rows.
#pragma once

#include "ops/lora/lora_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

struct LoraCase {
  CaseKind kind;
  int64_t m, k, n, rank, adapters;
  bool index = false, accumulate = false;
  int64_t pad = 0;
  DType weights = DType::f32;  // only for CPUs
  bool blocks = false;         // rows of one adapter are neighbours
};

// Some rows have no adapter.
inline Tensor lora_index(CaseMemory& memory, int64_t m, int64_t adapters, bool blocks) {
  const Tensor index = memory.rows(m, adapters);
  auto* values = memory.host(index).as<int32_t>();
  for (int64_t i = 0; i < m; ++i) {
    if (blocks) values[i] = static_cast<int32_t>(i * adapters / m);
    if (i % 11 == 5) values[i] = -1;
  }
  return index;
}

inline BoundOp make_lora_case(CaseMemory& memory, const LoraCase& c) {
  const auto rows = [&](const Tensor& t, int64_t columns) { return t.slice(1, c.pad, c.pad + columns); };
  LoraArgs args{.x = rows(memory.normal({c.m, c.k + c.pad}), c.k), .accumulate = c.accumulate};
  if (c.weights == DType::f32) {
    args.a = memory.normal({c.adapters, c.rank, c.k}, 1 / std::sqrt(static_cast<float>(c.k)));
    args.b = memory.normal({c.adapters, c.n, c.rank}, 1 / std::sqrt(static_cast<float>(c.rank)));
  } else {
    args.a = memory.normal_as(c.weights, {c.adapters, c.rank, c.k});
    args.b = memory.normal_as(c.weights, {c.adapters, c.n, c.rank});
  }
  args.scales = memory.param({c.adapters});
  if (c.index) args.index = lora_index(memory, c.m, c.adapters, c.blocks);
  const CaseMemory::Dims dims = {c.m, c.n + c.pad};
  args.y = rows(c.accumulate ? memory.inout(memory.normal(dims)) : memory.output(dims), c.n);
  const auto bind = [&](const LoraArgs& a) {
    return bind_op("lora", lora, lora_table(), lora_working, a, {a.y});
  };
  BoundOp bound = bind(args);
  if (c.m <= 4 * kSampledRows || c.kind < CaseKind::real) return bound;
  std::vector<BoundOp> parts;
  for (const int64_t begin : sampled_rows(c.m)) {
    LoraArgs part = args;
    for (Tensor* t : {&part.x, &part.index, &part.y})
      if (t->defined()) *t = t->slice(0, begin, begin + kSampledRows);
    parts.push_back(bind(part));
  }
  return define_parts(std::move(bound), std::move(parts));
}

// With `scales` only their gradients are computed. They are a few long sums whose terms cancel, and float32's
// own may be right by luck. So on a GPU, where outputs are judged one by one, they have a separate bound.
inline void add_lora_backward_cases(std::vector<OpCase>& cases) {
  const auto add = [&](CaseKind kind, int64_t m, int64_t k, int64_t n, int64_t rank, int64_t adapters,
                       bool index, bool scales = false) {
    const auto name = fmt::format("{}x{}x{}-r{}-n{}{}{}", m, k, n, rank, adapters, index ? "-index" : "",
                                  scales ? "-scales" : "");
    const double products = 2.0 * m * rank * (k + n) * (index ? 1 : adapters);
    cases.push_back({"lora_backward", name, kind, 4.0 * m * (scales ? k + n : 3 * k + 2 * n),
                     scales ? products : 2.5 * products, [=](CaseMemory& memory) {
                       LoraBackwardArgs args{.x = memory.normal({m, k})};
                       args.a = memory.normal({adapters, rank, k}, 1 / std::sqrt(static_cast<float>(k)));
                       args.b = memory.normal({adapters, n, rank}, 1 / std::sqrt(static_cast<float>(rank)));
                       args.scales = memory.param({adapters}), args.dy = memory.normal({m, n});
                       if (index) args.index = lora_index(memory, m, adapters, false);
                       std::vector<Tensor> outputs;
                       if (scales) {
                         outputs = {args.dscales = memory.output(DType::f32, {adapters})};
                       } else {
                         args.dx = memory.output({m, k}), args.da = memory.output({adapters, rank, k});
                         args.db = memory.output({adapters, n, rank});
                         outputs = {args.dx, args.da, args.db};
                       }
                       return bind_op("lora_backward", lora_backward, lora_backward_table(),
                                      lora_backward_working, args, outputs);
                     }});
    cases.back().gpu = true;
    cases.back().cpu = kind != CaseKind::video;
    if (scales) cases.back().gpu_factor = 16;
  };
  for (const bool scales : {false, true}) {
    add(CaseKind::tiny, 3, 8, 5, 2, 1, false, scales);
    add(CaseKind::odd, 23, 37, 19, 5, 3, false, scales);
    add(CaseKind::odd, 23, 37, 19, 5, 3, true, scales);
    add(CaseKind::tiny, 300, 72, 200, 16, 2, false, scales);
    add(CaseKind::tiny, 400, 136, 64, 72, 3, true, scales);
  }
  add(CaseKind::video, 8192, 5120, 5120, 64, 1, false);
}

inline std::vector<LoraCase> lora_case_list() {
  using enum CaseKind;
  return {
      {tiny, 2, 8, 8, 4, 1},
      {tiny, 1, 64, 48, 16, 1, false, true},
      {tiny, 130, 136, 264, 16, 2, false, true},
      {tiny, 70, 72, 40, 64, 3, true},
      {tiny, 300, 200, 136, 72, 1},
      {tiny, 5, 1024, 256, 8, 20},
      {tiny, 1100, 64, 72, 8, 3},  // many rows, for a GPU
      {tiny, 1030, 136, 264, 24, 1, false, true},
      {tiny, 150, 64, 130, 96, 4, true, true, 8},
      // Some adapters have few rows, some many, some none; K cannot be divided into equal shares; ranks
      // differ from the tile sizes 16 and 64.
      {tiny, 64, 264, 72, 16, 5, true},
      {tiny, 17, 1032, 40, 36, 3, true, true},
      {tiny, 33, 520, 130, 4, 40, true},
      {tiny, 48, 2056, 34, 68, 2, false, true, 8},
      {tiny, 9, 328, 263, 100, 1},
      {odd, 1, 1, 1, 1, 1},
      {odd, 7, 17, 5, 3, 2, false, true, 1},
      {odd, 67, 133, 77, 9, 3, true, false, 3},
      {odd, 131, 40, 53, 65, 2, true, true},
      {odd, 65, 88, 61, 4, 18, false, false, 5},
      {.kind = odd, .m = 33, .k = 67, .n = 131, .rank = 12, .adapters = 3, .weights = DType::bf16},
      {.kind = odd,
       .m = 33,
       .k = 67,
       .n = 50,
       .rank = 5,
       .adapters = 2,
       .index = true,
       .weights = DType::f16},
      {real, 1560, 1536, 1536, 64, 1, false, true},  // Wan 1.3B, one frame of 480p
      {real, 1, 5120, 5120, 16, 8},
      {real, 32, 4096, 4096, 16, 8, true},  // a batch of language model requests, each with its own adapter
      {video, 1, 5120, 5120, 64, 1, false, true},
      {video, 8, 4096, 4096, 16, 8, true},
      {video, 32, 4096, 4096, 64, 8, true},
      {video, 64, 8192, 8192, 16, 64, true},
      {video, 32760, 1536, 1536, 64, 1, false, true},
      {video, 32760, 5120, 5120, 64, 1, false, true},
      {video, 32760, 5120, 13824, 64, 1, false, true},
      {video, 32760, 13824, 5120, 64, 1, false, true},
      {video, 32760, 5120, 5120, 128, 1, false, true},
      {video, 32760, 5120, 5120, 64, 8, false, true},
      {.kind = video,
       .m = 32760,
       .k = 5120,
       .n = 5120,
       .rank = 64,
       .adapters = 4,
       .index = true,
       .blocks = true},
  };
}

inline std::vector<OpCase> lora_cases() {
  std::vector<OpCase> cases;
  for (const LoraCase& c : lora_case_list()) {
    const auto name =
        fmt::format("{}x{}x{}-r{}-n{}{}{}{}{}{}", c.m, c.k, c.n, c.rank, c.adapters, c.index ? "-index" : "",
                    c.blocks ? "-blocks" : "", c.accumulate ? "-add" : "", c.pad ? "-strided" : "",
                    c.weights == DType::f32 ? std::string() : fmt::format("-{}", dtype_name(c.weights)));
    const double columns = static_cast<double>(c.rank) * (c.index ? 1 : c.adapters);
    const double bytes = 4.0 * c.m * (c.k + (c.accumulate ? 2 : 1) * c.n) +
                         static_cast<double>(c.adapters * c.rank * (c.k + c.n)) * dtype_size(c.weights);
    cases.push_back({"lora", name, c.kind, bytes, 2.0 * c.m * columns * (c.k + c.n),
                     [c](CaseMemory& memory) { return make_lora_case(memory, c); }});
    cases.back().gpu = c.weights == DType::f32;
    cases.back().cpu = c.kind != CaseKind::video;
  }
  add_lora_backward_cases(cases);
  return cases;
}

}  // namespace tachy::ops
