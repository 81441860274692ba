#include "nn/linear.h"

#include <algorithm>

#include "nn/adapter_set.h"
#include "nn/linear_registry.h"
#include "nn/weight_form.h"
#include "weights/tensor_range.h"

namespace tachy::nn {

struct Linear::Layer {
  std::vector<Part> parts;
  std::unique_ptr<const WeightForm> weight;
  Tensor bias;  // [out] f32 or undefined
  // The bias in the activations' dtype, because a product's epilogue needs its output's dtype.
  Tensor low_bias;
  bool on_gpu = false;
};

namespace {

// Turns "blocks.3.attn1.to_q." into "blocks.3.attn1.to_q".
std::string layer_name(const Scope& scope) {
  const std::string& prefix = scope.prefix();
  return prefix.substr(0, prefix.size() - (prefix.ends_with('.') ? 1 : 0));
}

// Returns the biases of all parts, one after another.
Tensor place_biases(std::span<const Tensor> biases, DType dtype, ParamStore& store) {
  int64_t count = 0;
  for (const Tensor& bias : biases) count += bias.dim(0);
  const Tensor out = store.allocate(dtype, {count});
  int64_t first = 0;
  for (const Tensor& bias : biases) {
    store.fill(out.slice(0, first, first + bias.dim(0)), bias);
    first += bias.dim(0);
  }
  return out;
}

// Returns the layer's weight as a matrix, whatever dims it has in the file.
WeightPart read_weight(const Scope& scope, std::initializer_list<int64_t> dims) {
  const std::span<const int64_t> all(dims.begin(), dims.size());
  const auto* entry = scope.entry("weight");
  const bool folded = entry && all.size() > 2 && is_folded(all, entry->dims);
  const std::span<const int64_t> there = folded ? std::span<const int64_t>(entry->dims) : all;
  const int64_t out = all.front();
  auto derived = scope.derived("weight", there);
  if (!derived) return {scope.tensor("weight", there).view({out, -1})};
  int64_t in = 1;
  for (int64_t d : all.subspan(1)) in *= d;
  return {Tensor(nullptr, entry->dtype, {out, in}), std::move(derived)};
}

WeightUse use_of(std::string_view layer, const ParamStore& store) {
  return {.eight_bits = store.eight_bits(layer), .visiting = store.visiting(layer)};
}

}  // namespace

Linear::Linear(std::vector<Part> parts, std::unique_ptr<const WeightForm> weight,
               std::span<const Tensor> biases, ParamStore& store) {
  Layer layer{.parts = std::move(parts),
              .weight = std::move(weight),
              .bias = {},
              .low_bias = {},
              .on_gpu = store.on_gpu()};
  if (!biases.empty()) {
    const DType low = store.stream().precision.activation;
    layer.bias = place_biases(biases, DType::f32, store);
    if (low != DType::f32) layer.low_bias = place_biases(biases, low, store);
  }
  layer_ = std::make_shared<const Layer>(std::move(layer));
  store.linears().add(*this);
}

Linear::Linear(const Scope& scope, ParamStore& store, int64_t in, int64_t out, bool has_bias) {
  const WeightPart weight = read_weight(scope, {out, in});
  std::vector<Tensor> bias;
  if (has_bias) bias.push_back(scope.tensor("bias", {out}));
  *this = Linear({{layer_name(scope), 0, out}},
                 make_weight({&weight, 1}, store, use_of(layer_name(scope), store)), bias, store);
}

Linear Linear::from_kernel(const Scope& scope, ParamStore& store, std::initializer_list<int64_t> dims,
                           bool has_bias) {
  const int64_t out = *dims.begin();
  const WeightPart weight = read_weight(scope, dims);
  std::vector<Tensor> bias;
  if (has_bias) bias.push_back(scope.tensor("bias", {out}));
  return Linear({{layer_name(scope), 0, out}}, make_weight({&weight, 1}, store), bias, store);
}

Linear Linear::joined(std::span<const Scope> scopes, ParamStore& store, int64_t in, int64_t out_each,
                      bool has_bias) {
  std::vector<Part> parts;
  std::vector<WeightPart> weights;
  std::vector<Tensor> biases;
  for (const Scope& scope : scopes) {
    parts.push_back({layer_name(scope), static_cast<int64_t>(parts.size()) * out_each, out_each});
    weights.push_back(read_weight(scope, {out_each, in}));
    if (has_bias) biases.push_back(scope.tensor("bias", {out_each}));
  }
  const bool eight_bits = std::ranges::all_of(parts, [&](const Part& p) { return store.eight_bits(p.name); });
  return Linear(std::move(parts), make_weight(weights, store, {.eight_bits = eight_bits}), biases, store);
}

Linear Linear::from_part(const Scope& scope, const WeightPart& weight, const Tensor& bias,
                         ParamStore& store) {
  std::vector<Tensor> biases;
  if (bias.defined()) biases.push_back(bias);
  return Linear({{layer_name(scope), 0, weight.tensor.dim(0)}}, make_weight({&weight, 1}, store), biases,
                store);
}

Linear Linear::from_host(const Scope& scope, const Tensor& weight, const Tensor& bias, ParamStore& store) {
  const WeightPart part{weight};
  return Linear({{layer_name(scope), 0, weight.dim(0)}}, make_dense_weight({&part, 1}, store), {&bias, 1},
                store);
}

int64_t Linear::in() const { return layer_->weight->in(); }
int64_t Linear::out() const { return layer_->weight->out(); }
bool Linear::on_gpu() const { return layer_->on_gpu; }
const WeightForm& Linear::weight() const { return *layer_->weight; }
const char* Linear::form() const { return layer_->weight->name(); }
std::span<const Linear::Part> Linear::parts() const { return layer_->parts; }

void Linear::operator()(const Tensor& x, const Tensor& y, Stream& stream, const Epilogue& epilogue) const {
  if (stream.adapters)
    if (const AdaptedLinear* own = AdapterSet::of(stream)->find(*this)) return (*own)(x, y, stream, epilogue);
  layer_->weight->product(arguments(x, y, epilogue), stream);
}

bool Linear::takes_codes(DType dtype, const Stream& stream) const {
  if (stream.adapters && AdapterSet::of(stream)->find(*this)) return false;
  return layer_->weight->code_dtype() == dtype;
}

void Linear::operator()(const RowCodes& x, const Tensor& y, Stream& stream, const Epilogue& epilogue) const {
  check(takes_codes(x.values.dtype, stream), ErrorCode::internal, "{}: it takes no codes of {}",
        layer_->parts.front().name, dtype_name(x.values.dtype));
  const ArenaScope scope(*stream.arena);
  layer_->weight->product_of(x, arguments({}, y, epilogue), stream);
}

ops::GemmArgs Linear::arguments(const Tensor& x, const Tensor& y, const Epilogue& epilogue) const {
  return {.x = x,
          .weight = {},
          .packed = {},
          .bias = y.dtype == DType::f32 ? layer_->bias : layer_->low_bias,
          .act = epilogue.act,
          .multiply = epilogue.multiply,
          .gate = epilogue.gate,
          .row = epilogue.row,
          .residual = epilogue.residual,
          .y = y};
}

}  // namespace tachy::nn
