#include "nn/adapter_set.h"

#include <algorithm>
#include <cmath>

#include "ops/activation/activation.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gated_residual/gated_residual.h"
#include "ops/glu/glu.h"

namespace tachy::nn {
namespace {

constexpr int64_t kRankStep = 8;  // 16 bytes of the narrowest activations

using LayerAdapters = std::vector<const LowRank*>;  // of one layer

void check_adapter(const LowRank& adapter, const LinearRegistry::Entry& entry, std::string_view model) {
  const int64_t in = entry.linear.in(), out = entry.part().rows;
  const Tensor &a = adapter.a, &b = adapter.b;
  require(a.rank == 2 && b.rank == 2 && a.dim(0) >= 1 && a.dim(1) == in && b.dim(0) == out &&
              b.dim(1) == a.dim(0),
          "{}: adapter of {}: expected A [r, {}] and B [{}, r] of a rank r of at least 1, got {} and {}",
          model, entry.name(), in, out, shape_string(a), shape_string(b));
  require(is_float(a.dtype) && is_float(b.dtype) && a.contiguous() && b.contiguous(),
          "{}: adapter of {}: expected contiguous A and B of a float dtype, got {} and {}", model,
          entry.name(), dtype_name(a.dtype), dtype_name(b.dtype));
  require(std::isfinite(adapter.scale), "{}: adapter of {}: expected a finite scale, got {}", model,
          entry.name(), adapter.scale);
}

int64_t padded_rank(const LayerAdapters& adapters) {
  int64_t rank = 0;
  for (const LowRank* adapter : adapters) rank += adapter->a.dim(0);
  return (rank + kRankStep - 1) / kRankStep * kRankStep;
}

// scale_i·A_i one below another, from row 0 of `to` [rank, in] on.
void gather_a(const LayerAdapters& adapters, const Tensor& to, ThreadPool& pool) {
  int64_t first = 0;
  for (const LowRank* adapter : adapters) {
    const Tensor rows = to.slice(0, first, first + adapter->a.dim(0));
    convert_weight(adapter->a, rows, pool);
    for (float *v = rows.as<float>(), *end = v + rows.numel(); v < end; ++v) *v *= adapter->scale;
    first += rows.dim(0);
  }
}

// B_i side by side, from column 0 of `to` [out, rank] on.
void gather_b(const LayerAdapters& adapters, const Tensor& to, ThreadPool& pool) {
  int64_t first = 0;
  for (const LowRank* adapter : adapters) {
    const int64_t rank = adapter->b.dim(1);
    std::vector<float> values(static_cast<size_t>(adapter->b.numel()));
    convert_weight(adapter->b, Tensor(values.data(), DType::f32, adapter->b.shape()), pool);
    for (int64_t row = 0; row < to.dim(0); ++row)
      std::copy_n(values.data() + row * rank, rank, to.as<float>() + row * to.stride(0) + first);
    first += rank;
  }
}

// fill(to) writes a matrix on the host, in float32 and over zeros; it is placed where the store's stream
// computes.
template <class Fill>
Tensor place(ParamStore& store, int64_t rows, int64_t columns, Fill&& fill) {
  const Tensor out = store.allocate(store.stream().precision.activation, {rows, columns});
  if (store.plan_only()) return out;
  std::vector<float> values(static_cast<size_t>(rows * columns));
  const Tensor host(values.data(), DType::f32, {rows, columns});
  fill(host);
  store.fill(out, host);
  return out;
}

}  // namespace

AdaptedLinear::AdaptedLinear(const Linear& linear, const PartAdapters& parts, ParamStore& store)
    : linear_(linear) {
  ParamStore& own = linear.on_gpu() ? store : store.beside();
  check(linear.on_gpu() == own.on_gpu(), ErrorCode::internal,
        "adapter of {}: the layer computes on a GPU, and the adapter's memory is on the host",
        linear.parts().front().name);
  ThreadPool& pool = *own.stream().pool;
  int64_t ranks = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty()) continue;
    const Linear::Part& part = linear.parts()[i];
    const int64_t rank = padded_rank(parts[i]);
    parts_.push_back({part.first, part.rows, ranks, rank,
                      place(own, part.rows, rank, [&](const Tensor& to) { gather_b(parts[i], to, pool); })});
    ranks += rank;
  }
  a_ = place(own, ranks, linear.in(), [&](const Tensor& to) {
    int64_t first = 0;
    for (const LayerAdapters& adapters : parts) {
      const int64_t end = first + padded_rank(adapters);
      gather_a(adapters, to.slice(0, first, end), pool);
      first = end;
    }
  });
}

// y += gate[row]·((x·Aᵀ)·Bᵀ · multiply), in the columns of each part.
void AdaptedLinear::add(const Tensor& low, const Tensor& y, const Epilogue& epilogue, Stream& stream) const {
  for (const Part& part : parts_) {
    const auto columns = [&](const Tensor& t) {
      return t.defined() ? t.slice(1, part.first, part.first + part.columns) : t;
    };
    ops::gemm({.x = low.slice(1, part.from, part.from + part.rank),
               .weight = part.b,
               .multiply = columns(epilogue.multiply),
               .gate = columns(epilogue.gate),
               .row = epilogue.row,
               .residual = columns(y),
               .y = columns(y)},
              stream);
  }
}

void AdaptedLinear::operator()(const Tensor& x, const Tensor& y, Stream& stream, const Epilogue& e) const {
  Stream plain = stream;
  plain.adapters = nullptr;
  const ArenaScope scope(*stream.arena);
  const Tensor low = stream.arena->tensor(x.dtype, {x.dim(0), a_.dim(0)});
  ops::gemm({.x = x, .weight = a_, .y = low}, plain);
  if (e.act == ops::Activation::none) {  // the epilogue of a sum is the sum of epilogues
    linear_(x, y, plain, e);
    return add(low, y, e, plain);
  }
  const bool in_y = !e.residual.defined() && (e.multiply.defined() || y.contiguous());
  const Tensor t = in_y ? y : stream.arena->tensor(y.dtype, y.shape());
  linear_(x, t, plain);
  add(low, t, {}, plain);
  if (e.multiply.defined())
    ops::glu({.a = t, .b = e.multiply, .kind = e.act, .y = t}, plain);
  else
    ops::activation({.x = t, .kind = e.act, .y = t}, plain);
  if (e.residual.defined())
    ops::gated_residual({.x = e.residual, .u = t, .gate = e.gate, .row = e.row, .y = y}, plain);
  else if (!in_y)
    ops::copy({.x = t, .y = y}, plain);
}

AdapterSet::AdapterSet(std::span<const LowRank> adapters, const LinearRegistry& linears,
                       std::string_view model, ParamStore& store) {
  struct Gathered {
    Linear linear;
    AdaptedLinear::PartAdapters parts;
  };
  std::vector<Gathered> gathered;  // in the order given, so that memory is taken in the same order every time
  for (const LowRank& adapter : adapters) {
    const LinearRegistry::Entry& entry = linears.at(adapter.layer, model);
    check_adapter(adapter, entry, model);
    auto found =
        std::ranges::find(gathered, entry.linear.id(), [](const Gathered& g) { return g.linear.id(); });
    if (found == gathered.end())
      found =
          gathered.insert(found, {entry.linear, AdaptedLinear::PartAdapters(entry.linear.parts().size())});
    found->parts[entry.index].push_back(&adapter);
  }
  for (const Gathered& g : gathered) layers_.emplace(g.linear.id(), AdaptedLinear(g.linear, g.parts, store));
}

const AdaptedLinear* AdapterSet::find(const Linear& linear) const {
  const auto found = layers_.find(linear.id());
  return found == layers_.end() ? nullptr : &found->second;
}

bool AdapterSet::made_for(const LinearRegistry& linears) const {
  if (layers_.empty()) return true;
  const Linear& linear = layers_.begin()->second.linear();
  const LinearRegistry::Entry* entry = linears.find(linear.parts().front().name);
  return entry && entry->linear.id() == linear.id();
}

void expect_own_adapters(std::string_view model, const Stream& stream, const LinearRegistry& linears) {
  const AdapterSet* set = AdapterSet::of(stream);
  check(!set || set->made_for(linears), ErrorCode::internal,
        "{}: the stream's adapters were made for another model, or before this one was loaded", model);
}

}  // namespace tachy::nn
