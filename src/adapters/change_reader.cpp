#include "adapters/change_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <set>

#include "adapters/joined_down.h"
#include "adapters/layer_values.h"
#include "adapters/misfit.h"
#include "base/error.h"
#include "weights/quote.h"

namespace tachy {
namespace {

using Role = AdapterRole;
using Entry = TensorSource::Entry;

class LayerReader {
 public:
  LayerReader(const AdapterFile& file, const AdapterLayer& layer, const AdapterTarget& target)
      : file_(file), layer_(layer), target_(target) {}

  LayerChanges read();

 private:
  bool has(Role role) const { return layer_.tensors.contains(role); }
  const Entry& entry(Role role, const char* missing) const {
    const auto found = layer_.tensors.find(role);
    if (found == layer_.tensors.end()) misfit("it has no {}", missing);
    return *found->second;
  }
  Tensor values(Role role, const char* missing);
  Tensor matrix(Role role, const char* missing);
  Tensor like(Role role, const Entry& target);
  WeightChange change(const Entry* target, const char* what, WeightChange::Kind kind) const;
  void take_scale(WeightChange& c, int64_t rank) const;
  void take_magnitude(WeightChange& c);
  void keep(WeightChange c) {
    if (!made_->empty()) c.made = made_;
    out_.changes.push_back(std::make_shared<const WeightChange>(std::move(c)));
  }
  void keep_delta(WeightChange c);

  void low_rank();
  void hadamard();
  void kronecker();
  void product();
  void deltas();

  const AdapterFile& file_;
  const AdapterLayer& layer_;
  const AdapterTarget& target_;
  LayerChanges out_;
  std::set<Role> used_ = {Role::alpha};
  // Holds values that are not views of the file. All changes of the layer share it.
  std::shared_ptr<std::deque<std::vector<float>>> made_ = std::make_shared<std::deque<std::vector<float>>>();
};

Tensor LayerReader::values(Role role, const char* missing) {
  used_.insert(role);
  const Entry& e = entry(role, missing);
  if (!e.unusable.empty()) misfit("its tensor {}: {}", in_quotes(e.name_in_file), e.unusable);
  return layer_values(*file_.source, e, *made_);
}

// [n, everything else]
Tensor LayerReader::matrix(Role role, const char* missing) {
  const Tensor all = values(role, missing);
  if (all.rank < 2 || all.numel() == 0) misfit("its {} is {}, expected a matrix", missing, shape_string(all));
  return all.view({all.dim(0), -1});
}

// Returns the tensor as [dims[0], everything else] of the target, which must have as many values.
Tensor LayerReader::like(Role role, const Entry& target) {
  const Tensor all = values(role, "change");
  const auto without_ones = [](std::span<const int64_t> dims) {
    std::vector<int64_t> out;
    std::ranges::copy_if(dims, std::back_inserter(out), [](int64_t d) { return d != 1; });
    return out;
  };
  if (without_ones(all.shape()) != without_ones(target.dims))
    misfit("its change is {}, the model's tensor {}", shape_string(all), shape_string(target.dims));
  return all.view({target.dims.front(), -1});
}

WeightChange LayerReader::change(const Entry* target, const char* what, WeightChange::Kind kind) const {
  if (!target) misfit("the model's {} has no {}", target_.name.empty() ? "head" : target_.name, what);
  WeightChange c;
  c.kind = kind, c.tensor = target->name;
  return c;
}

void LayerReader::take_scale(WeightChange& c, int64_t rank) const {
  AdapterScale scale = adapter_scale(file_, layer_, rank);
  c.rank = rank, c.scale = scale.value, c.scale_from = std::move(scale.from);
}

void expect_shape(const Tensor& up, const Tensor& down, const Entry& target) {
  const auto [out, in] = Extents(target);
  if (up.dim(0) != out || down.dim(1) != in || up.dim(1) != down.dim(0))
    misfit("its pair is {} · {}, the model's weight [{}, {}]", shape_string(up), shape_string(down), out, in);
}

// One length per row: LyCORIS stores [rows, 1, …], an older kind [1, columns], PEFT [rows] or [1, rows, 1, …].
void LayerReader::take_magnitude(WeightChange& c) {
  if (!has(Role::magnitude)) return;
  const Tensor m = values(Role::magnitude, "magnitudes");
  const int64_t rows = Extents(*target_.weight).out;
  const bool peft =
      layer_.tensors.at(Role::magnitude)->name.find(".lora_magnitude_vector") != std::string::npos;
  if (m.numel() != rows || (!peft && m.rank > 1 && m.dim(0) == 1 && rows != 1))
    misfit("its magnitudes are {}, expected one a row of the weight, [{}, 1]", shape_string(m), rows);
  c.magnitude = m.view({-1});
}

void LayerReader::low_rank() {
  WeightChange c = change(target_.weight, "weight", WeightChange::Kind::low_rank);
  c.up = matrix(Role::up, "lora_up (lora_B)");
  c.down = matrix(Role::down, "lora_down (lora_A)");
  if (has(Role::mid)) {
    const Tensor mid = values(Role::mid, "lora_mid");
    if (mid.rank < 2 || mid.numel() == 0 || mid.dim(0) != c.up.dim(1) || mid.dim(1) != c.down.dim(0))
      misfit("its lora_mid is {}, expected [{}, {}, …]", shape_string(mid), c.up.dim(1), c.down.dim(0));
    // Check this first, because a file can make the product of two short tensors huge.
    const int64_t taps = mid.numel() / (mid.dim(0) * mid.dim(1));
    const auto [out, in] = Extents(*target_.weight);
    if (c.up.dim(0) != out || in % taps != 0 || c.down.dim(1) != in / taps)
      misfit("its pair is {} · {} with lora_mid {}, the model's weight [{}, {}]", shape_string(c.up),
             shape_string(c.down), shape_string(mid), out, in);
    std::vector<float>& joined = made_->emplace_back(joined_down(mid, c.down));
    c.down =
        Tensor(joined.data(), DType::f32, {mid.dim(0), static_cast<int64_t>(joined.size()) / mid.dim(0)});
  }
  expect_shape(c.up, c.down, *target_.weight);
  take_scale(c, c.down.dim(0));
  take_magnitude(c);
  if (has(Role::up_bias)) {
    WeightChange bias = change(target_.bias, "bias", WeightChange::Kind::full);
    bias.up = like(Role::up_bias, *target_.bias);
    bias.scale = c.scale, bias.scale_from = c.scale_from;
    keep_delta(std::move(bias));
  }
  keep(std::move(c));
}

void LayerReader::hadamard() {
  WeightChange c = change(target_.weight, "weight", WeightChange::Kind::hadamard);
  c.up = matrix(Role::hada_w1_a, "hada_w1_a"), c.down = matrix(Role::hada_w1_b, "hada_w1_b");
  c.up_2 = matrix(Role::hada_w2_a, "hada_w2_a"), c.down_2 = matrix(Role::hada_w2_b, "hada_w2_b");
  expect_shape(c.up, c.down, *target_.weight);
  expect_shape(c.up_2, c.down_2, *target_.weight);
  take_scale(c, c.down.dim(0));
  take_magnitude(c);
  keep(std::move(c));
}

// The inner dimension of the factors is the rank for alpha; a matrix that is not factored has none.
void LayerReader::kronecker() {
  WeightChange c = change(target_.weight, "weight", WeightChange::Kind::kronecker);
  int64_t rank = 0;
  const auto factor = [&](Role whole, Role a, Role b, const char* name, Tensor& up, Tensor& down) {
    if (has(whole)) {
      up = matrix(whole, name);
      return;
    }
    up = matrix(a, name), down = matrix(b, name);
    if (up.dim(1) != down.dim(0)) misfit("its {} is {} · {}", name, shape_string(up), shape_string(down));
    rank = down.dim(0);
  };
  factor(Role::lokr_w1, Role::lokr_w1_a, Role::lokr_w1_b, "lokr_w1", c.up, c.down);
  factor(Role::lokr_w2, Role::lokr_w2_a, Role::lokr_w2_b, "lokr_w2", c.up_2, c.down_2);
  const auto columns = [](const Tensor& a, const Tensor& b) { return (b.defined() ? b : a).dim(1); };
  const auto [out, in] = Extents(*target_.weight);
  const int64_t rows = c.up.dim(0) * c.up_2.dim(0), width = columns(c.up, c.down) * columns(c.up_2, c.down_2);
  if (rows != out || width != in)
    misfit("its product is [{}, {}], the model's weight [{}, {}]", rows, width, out, in);
  take_scale(c, rank);
  take_magnitude(c);
  keep(std::move(c));
}

void LayerReader::product() {
  WeightChange c = change(target_.weight, "weight", WeightChange::Kind::product);
  c.up = matrix(Role::glora_b1, "b1"), c.down = matrix(Role::glora_b2, "b2");
  c.up_2 = matrix(Role::glora_a1, "a1"), c.down_2 = matrix(Role::glora_a2, "a2");
  expect_shape(c.up, c.down, *target_.weight);
  const int64_t in = c.down.dim(1);
  if (c.up_2.dim(0) != in || c.down_2.dim(1) != in || c.up_2.dim(1) != c.down_2.dim(0))
    misfit("its a1 and a2 are {} · {}, the model's weight has {} columns", shape_string(c.up_2),
           shape_string(c.down_2), in);
  take_scale(c, c.down.dim(0));
  take_magnitude(c);
  keep(std::move(c));
}

// Files with deltas for all norms often contain deltas of zeros.
void LayerReader::keep_delta(WeightChange c) {
  const auto* bytes = static_cast<const char*>(c.up.data);
  const auto size = static_cast<size_t>(c.up.bytes());
  if (c.kind == WeightChange::Kind::full && std::all_of(bytes, bytes + size, [](char b) { return b == 0; })) {
    ++out_.zero;
    return;
  }
  keep(std::move(c));
}

void LayerReader::deltas() {
  const auto add = [&](Role role, const Entry* target, const char* what, WeightChange::Kind kind) {
    if (!has(role)) return;
    WeightChange c = change(target, what, kind);
    c.up = like(role, *target);
    c.scale_from = "delta";
    keep_delta(std::move(c));
  };
  add(Role::diff, target_.weight, "weight", WeightChange::Kind::full);
  add(Role::set_weight, target_.weight, "weight", WeightChange::Kind::replace);
  add(Role::diff_bias, target_.bias, "bias", WeightChange::Kind::full);
  add(Role::diff_modulation, target_.modulation, "modulation", WeightChange::Kind::full);
}

LayerChanges LayerReader::read() {
  try {
    if (has(Role::unsupported))
      misfit("its tensor {} is of a kind that is not supported",
             in_quotes(layer_.tensors.at(Role::unsupported)->name_in_file));
    if (has(Role::down) || has(Role::up)) low_rank();
    if (has(Role::hada_w1_a) || has(Role::hada_w2_a)) hadamard();
    if (has(Role::lokr_w1) || has(Role::lokr_w1_a) || has(Role::lokr_w2) || has(Role::lokr_w2_a)) kronecker();
    if (has(Role::glora_a1) || has(Role::glora_b1)) product();
    deltas();
    for (const auto& [role, tensor] : layer_.tensors)  // dropping one would change the meaning of the others
      if (!used_.contains(role))
        misfit("its tensor {} has no meaning beside the others", in_quotes(tensor->name_in_file));
    if (out_.changes.empty() && out_.zero == 0) misfit("it has nothing to add (only {})", layer_.suffix);
  } catch (const Misfit& why) {
    return {.changes = {}, .zero = 0, .reason = why.reason};
  }
  return std::move(out_);
}

}  // namespace

LayerChanges read_layer(const AdapterFile& file, const AdapterLayer& layer, const AdapterTarget& target) {
  return LayerReader(file, layer, target).read();
}

}  // namespace tachy
