#include "engine/optimisations.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/dtype.h"

namespace tachy {
namespace {

using enum Optimisation;

// Figures that were measured once, each with its machine. They are not what this machine would show:
// `tachyscope bench --optimisations` measures here.
struct Worth {
  const char *cpu, *gpu;  // null: not measured
};

constexpr const char* kNotMeasured = "not measured by itself";

Worth worth_of(Optimisation o) {
  switch (o) {
    case batched_guidance:
      return {nullptr, "H200: a step of the shipped model takes 1.68 times as long without it"};
    case few_keys:
      return {nullptr, "H200: a step of the shipped model takes 1.20 times as long without it"};
    case joined_qkv:
      return {nullptr, "H200: a step of the shipped model takes 1.09 times as long without it"};
    case fused_norms:
      return {nullptr, "H200: a step of the shipped model takes 1.02 times as long without it"};
    case fused_rope:
      return {nullptr, "H200: a step of the shipped model takes 1.05 times as long without it"};
    case fused_activations:
      return {nullptr, "H200: a step of the shipped model takes 1.02 times as long without it"};
    case norm_codes:
      return {nullptr, "H100: 197 µs less for each norm of 32760x5120, of three a block"};
    case conv_norms:
      return {nullptr, "H200: a VAE decode of 81x480x832 takes 434 ms, without 457"};
    case kernel_overlap:
      return {nullptr, "H200: a generation of the shipped model takes 34.8 ms, without 36.4"};
    case graphs:
      return {nullptr, "H200: a generation of the shipped model takes 34 ms, without 35 to 39"};
    default:
      return {nullptr, nullptr};
  }
}

std::string worth_text(Optimisation o, bool gpu) {
  const Worth worth = worth_of(o);
  const char* text = gpu ? worth.gpu : worth.cpu;
  return text ? text : kNotMeasured;
}

struct OnOff {
  bool on;
  std::string why;
};

OnOff state_of(Optimisation o, const OptimisationCase& run) {
  const bool e4m3 = run.precision.products == Products::e4m3;
  switch (o) {
    case batched_guidance:
      if (run.branches == 1) return {false, "one branch: the request has no guidance"};
      if (run.branches == 0) return {true, "where a request has guidance"};
      return {true, fmt::format("{} branches in one pass", run.branches)};
    case norm_codes:
      if (!run.gpu || !run.hopper) return {false, "it needs a Hopper GPU"};
      if (!e4m3) return {false, "products are not in e4m3"};
      if (run.without.has(fused_norms)) return {false, "it needs fused-norms"};
      return {true, "products are in e4m3"};
    case conv_norms:
      if (!run.gpu) return {false, "it needs a GPU"};
      return {true, "where the convolution's kernel can"};
    case kernel_overlap:
      if (!run.gpu || !run.hopper) return {false, "it needs a Hopper GPU"};
      return {true, "short norms and attention"};
    case graphs:
      if (!run.gpu) return {false, "it needs a GPU"};
      if (!run.graphs) return {false, "the level, `graphs` or `verify_upload` leaves them out"};
      return {true, "steps of up to 0.25 s"};
    case step_cache:
      if (run.too_few_steps) return {false, "with so few steps all are computed"};
      if (run.step_cache <= 0) return {false, "the level or `step_cache` leaves it out"};
      return {true, fmt::format("{}, threshold {}", run.step_cache_kind, run.step_cache)};
    default:
      return {true, "at every level"};
  }
}

OptimisationState named(const OptimisationInfo& info, const OptimisationCase& run) {
  OptimisationState out{.name = info.name,
                        .off = fmt::format("`without` {}", info.name),
                        .means = info.means,
                        .worth = worth_text(info.which, run.gpu)};
  OnOff state = state_of(info.which, run);
  if (run.without.has(info.which)) state = {false, "`without` names it"};
  out.on = state.on, out.why = std::move(state.why);
  return out;
}

// Adds the optimisations that use numbers of fewer bits, which have fields of their own.
void add_precisions(const OptimisationCase& run, std::vector<OptimisationState>& out) {
  const Precision& p = run.precision;
  const bool low = run.gpu ? p.activation != DType::f32 : p.compute == Compute::bf16;
  const std::string as = run.gpu ? std::string(dtype_name(p.activation)) : "bf16";
  out.push_back({.name = "`dtype`",
                 .off = "`dtype` f32",
                 .means = "products (on a GPU activations, too) in 16 bits",
                 .on = low,
                 .why = low ? as : "float32 is asked for",
                 .worth = run.gpu ? "H200: a step of the shipped model takes 4.9 times as long in float32"
                                  : "two cores with AMX: 1.3B's step 7.3 s in f32, 2.5 s in bf16"});
  if (run.gpu)
    out.push_back(
        {.name = "`residual`",
         .off = "`residual` f32",
         .means = "the residual stream in the activations' dtype",
         .on = p.residual != DType::f32,
         .why = p.residual != DType::f32 ? "the level or the field" : "the level or the field keeps float32",
         .worth = "H200: 14B's forward at 81x480x832 2,327 ms, with float32 2,362"});
  const bool eight = in_eight_bits(p.products);
  out.push_back({.name = "`math`",
                 .off = "`math` bf16",
                 .means = "the blocks' linear layers in 8 bits",
                 .on = eight,
                 .why = eight ? (p.products == Products::e4m3 ? "e4m3" : "int8")
                              : "neither the level nor the field asks",
                 .worth = run.gpu ? "H200: 14B's forward at 81x480x832 1,876 ms in e4m3, 2,327 in bf16"
                                  : kNotMeasured});
  if (run.gpu)
    out.push_back({.name = "`attention`",
                   .off = "`attention` bf16",
                   .means = "self-attention's products in 8 bits",
                   .on = p.attention_int8,
                   .why = p.attention_int8 ? "the field asks for it" : "only the field asks for it",
                   .worth = "H200: 14B's forward at 81x480x832 2,139 ms, in bf16 2,353"});
}

// Adds attention's kernels that denoising uses.
void add_kernels(const OptimisationCase& run, std::vector<OptimisationState>& out) {
  for (const ops::OpPick& p : run.picks) {
    const std::string name = p.op + ":" + p.impl;
    if (p.op != "attention" || p.impl == "ref") continue;
    const auto same = std::ranges::find(out, name, &OptimisationState::name);
    if (same != out.end()) continue;
    int64_t calls = 0;
    for (const ops::OpPick& other : run.picks)
      if (other.op == p.op && other.impl == p.impl) calls += other.calls;
    out.push_back({.name = name,
                   .off = fmt::format("`without` {}", name),
                   .means = "a kernel of attention",
                   .on = true,
                   .why = fmt::format("{} calls", calls),
                   .worth = p.impl == "flash_sm90"
                                ? "H200: 12x32,760x32,760 at 760 TFLOP/s, cuDNN's kernel 567"
                                : kNotMeasured});
  }
}

}  // namespace

std::vector<OptimisationState> optimisation_states(const OptimisationCase& run) {
  std::vector<OptimisationState> out;
  for (const OptimisationInfo& info : optimisations()) out.push_back(named(info, run));
  add_precisions(run, out);
  add_kernels(run, out);
  if (run.definitions)
    for (OptimisationState& s : out)
      if (s.on && !s.name.starts_with('`')) s.worth = "nothing here: level none runs definitions";
  return out;
}

std::vector<OptimisationState> states_of(const Resolved& r, const VideoPlan& plan, const cuda::GpuInfo* gpu) {
  OptimisationCase run{.gpu = gpu != nullptr,
                       .hopper = gpu && gpu->major == 9,
                       .definitions = r.precision.definitions,
                       .precision = r.precision,
                       .without = r.without,
                       .graphs = r.graphs,
                       .step_cache = r.step_cache.threshold,
                       .too_few_steps = r.request.step_cache.value_or(0) > 0 && !r.step_cache.on(),
                       .step_cache_kind = r.request.step_cache_kind,
                       .branches = static_cast<int>(r.most_branches()),
                       .picks = {}};
  for (const StagePlan& s : plan.stages)
    if (s.name == "denoise") run.picks = s.picks;
  return optimisation_states(run);
}

}  // namespace tachy
