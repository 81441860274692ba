#include "nn/adapter_set.h"

#include <algorithm>
#include <cmath>

#include "tensor/transfer.h"

namespace tachy::nn {
namespace {

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

}  // namespace

AdapterSet::AdapterSet(std::span<const LowRank> adapters, const LinearRegistry& linears,
                       std::string_view model, ParamStore& store)
    : adapters_(adapters.size()) {
  std::unordered_map<const void*, AdaptedLinear::PartAdapters> wanted;
  for (const LowRank& adapter : adapters) {
    const LinearRegistry::Entry& entry = linears.at(adapter.layer, model);
    check_adapter(adapter, entry, model);
    AdaptedLinear::PartAdapters& parts = wanted[entry.linear.id()];
    parts.resize(entry.linear.parts().size());
    parts[entry.index].push_back(&adapter);
  }
  std::array<std::vector<AdaptedLinear*>, 2> made;
  store.fill_together([&] {
    for (const LinearRegistry::Entry& entry : linears) {
      const auto found = wanted.find(entry.linear.id());
      if (found == wanted.end() || entry.index > 0) continue;
      const size_t side = entry.linear.on_gpu() == store.on_gpu() ? 0 : 1;
      AdaptedLinear linear(entry.linear, found->second, side == 0 ? store : store.beside());
      made[side].push_back(&layers_.emplace(entry.linear.id(), std::move(linear)).first->second);
    }
  });
  for (const size_t side : {0u, 1u}) {
    int64_t count = 0, first = 0;
    for (const AdaptedLinear* linear : made[side]) count += linear->rank();
    if (count == 0) continue;
    scales_[side].values = (side == 0 ? store : store.beside()).allocate(DType::f32, {count});
    for (AdaptedLinear* linear : made[side]) {
      linear->take_scales(scales_[side].values.slice(0, first, first + linear->rank()));
      first += linear->rank();
    }
  }
  for (const AdaptedLinear* linear : made[0]) {  // no recorded step contains layers of the host
    layout_.push_back(reinterpret_cast<uintptr_t>(linear->linear().id()));
    linear->add_layout(layout_);
  }
  if (store.plan_only()) return;
  for (const size_t side : {0u, 1u})
    for (AdaptedLinear* linear : made[side])
      for (const AdaptedLinear::Row& row : linear->take_rows())
        scales_[side].rows.push_back({row.adapter ? row.adapter - adapters.data() : -1, row.factor});
  std::vector<float> scales;
  for (const LowRank& adapter : adapters) scales.push_back(adapter.scale);
  set_scales(scales, store.stream());
}

void AdapterSet::set_scales(std::span<const float> scales, Stream& stream) {
  check(scales.size() == adapters_, ErrorCode::internal, "adapters: {} scales for {}", scales.size(),
        adapters_);
  for (const size_t side : {0u, 1u}) {
    const Scales& of = scales_[side];
    if (of.rows.empty()) continue;
    std::vector<float> values;
    for (const Row& row : of.rows)
      values.push_back(row.adapter < 0 ? 0.0f : scales[static_cast<size_t>(row.adapter)] * row.factor);
    if (side == 0)
      upload(values.data(), of.values, stream);
    else
      std::ranges::copy(values, of.values.as<float>());
  }
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
