#include "nn/adapted_linear.h"

#include <utility>

#include "nn/adapter_set.h"
#include "nn/weight_form.h"
#include "ops/activation/activation.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gated_residual/gated_residual.h"
#include "ops/glu/glu.h"
#include "ops/scaled_gemm/scaled_gemm.h"
#include "tensor/transfer.h"

namespace tachy::nn {

AdaptedLinear::AdaptedLinear(const Linear& linear, const PartAdapters& parts, ParamStore& store)
    : linear_(linear), codes_(linear.weight().code_dtype().has_value()) {
  check(linear.on_gpu() == store.on_gpu(), ErrorCode::internal,
        "adapter of {}: the layer computes on a GPU, and the adapter's memory is on the host",
        linear.parts().front().name);
  const DType dtype = store.stream().precision.activation;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty()) continue;
    const Linear::Part& part = linear.parts()[i];
    const int64_t rank = padded_rank(parts[i], store.stream().memory != nullptr);
    parts_.push_back({part.first, part.rows, static_cast<int64_t>(rows_.size()), rank,
                      store.allocate(dtype, {part.rows, rank})});
    store.fill(parts_.back().b, stacked_b(parts[i], rank));
    const size_t end = rows_.size() + static_cast<size_t>(rank);
    for (const LowRank* adapter : parts[i]) rows_.insert(rows_.end(), adapter->a.dim(0), {adapter, 1});
    rows_.resize(end, {nullptr, 1});
  }
  a_ = store.allocate(linear.weight().code_dtype().value_or(dtype),
                      {static_cast<int64_t>(rows_.size()), linear.in()});
  auto part = parts_.begin();
  for (const LayerAdapters& adapters : parts) {
    if (adapters.empty()) continue;
    const Tensor to = a_.slice(0, part->from, part->from + part->rank);
    const WeightPart a = stacked_a(adapters, part->rank);
    if (!codes_) {
      store.fill(to, a);
    } else {
      rounded_.emplace_back(a, to.dtype).fill_codes(to, store);
    }
    ++part;
  }
}

std::vector<AdaptedLinear::Row> AdaptedLinear::take_rows() {
  for (size_t i = 0; i < rounded_.size(); ++i) {
    std::vector<float> scales(static_cast<size_t>(parts_[i].rank));
    rounded_[i].scales(0, Tensor(scales.data(), DType::f32, {parts_[i].rank, 1}));
    for (size_t k = 0; k < scales.size(); ++k)
      rows_[static_cast<size_t>(parts_[i].from) + k].factor = scales[k];
  }
  rounded_.clear();
  return std::exchange(rows_, {});
}

void AdaptedLinear::add_layout(std::vector<uint64_t>& to) const {
  to.insert(to.end(), {static_cast<uint64_t>(codes_), reinterpret_cast<uintptr_t>(a_.data),
                       static_cast<uint64_t>(a_.dim(0)), reinterpret_cast<uintptr_t>(scales_.data)});
  for (const Part& part : parts_)
    to.insert(to.end(), {static_cast<uint64_t>(part.first), static_cast<uint64_t>(part.rank),
                         reinterpret_cast<uintptr_t>(part.b.data)});
}

// Says whether the matrix way moves fewer values.
bool AdaptedLinear::in_matrix(int64_t rows) const {
  const int64_t in = linear_.in(), out = linear_.out();
  return linear_.weight().has_matrix() && rows * (in + 2 * out) > 2 * out * in;
}

bool AdaptedLinear::covers_all() const { return parts_.size() == linear_.parts().size(); }

// Computes s·(x·Aᵀ) in scratch. `codes` are those of x if A is in codes, too.
Tensor AdaptedLinear::low_of(const Tensor& x, const WeightForm::Codes* codes, Stream& stream) const {
  const Tensor low = stream.arena->tensor(x.dtype, {x.dim(0), a_.dim(0)});
  const ArenaScope scope(*stream.arena);
  if (codes) {
    ops::scaled_gemm(
        {.x = codes->values, .x_scale = codes->scale, .weight = a_, .weight_scale = scales_, .y = low},
        stream);
    return low;
  }
  const Tensor scaled = stream.arena->tensor(a_.dtype, a_.shape());
  ops::copy({.x = a_, .scale = scales_, .shift = {}, .channel_axis = 0, .y = scaled}, stream);
  ops::gemm({.x = x, .weight = scaled, .y = low}, stream);
  return low;
}

// Writes the matrix of each part plus its B·(sA) into scratch, and multiplies once.
void AdaptedLinear::by_matrix(ops::GemmArgs args, Stream& stream) const {
  const WeightForm::Matrix base = linear_.weight().matrix(stream);
  args.weight = base.scratch ? base.values : stream.arena->tensor(base.values.dtype, base.values.shape());
  if (!base.scratch && !covers_all()) copy_bytes(base.values, args.weight, stream);
  for (const Part& part : parts_) {
    const ArenaScope scope(*stream.arena);
    const Tensor a = a_.slice(0, part.from, part.from + part.rank),
                 turned = stream.arena->tensor(a.dtype, {linear_.in(), part.rank});
    ops::copy({.x = a.transpose(0, 1),
               .scale = scales_.slice(0, part.from, part.from + part.rank),
               .shift = {},
               .channel_axis = 1,
               .y = turned},
              stream);
    const auto rows = [&](const Tensor& t) { return t.slice(0, part.first, part.first + part.columns); };
    ops::gemm({.x = part.b, .weight = turned, .residual = rows(base.values), .y = rows(args.weight)}, stream);
  }
  ops::gemm(args, stream);
}

// If the adapters cover all of y, their sum is written to y before the product. Otherwise it is added
// afterwards, which gives the same result if no activation follows.
void AdaptedLinear::by_codes(const ops::GemmArgs& args, Stream& stream) const {
  const WeightForm& weight = linear_.weight();
  const WeightForm::Codes x = weight.codes_of(args.x, stream);
  const Tensor low = low_of(args.x, &x, stream);
  if (!covers_all()) {
    weight.product_of(x, args, stream);
    return add(low, args.y, {.residual = args.y}, stream);
  }
  add(low, args.y, {.residual = args.residual}, stream);
  ops::GemmArgs with = args;
  with.residual = args.y;
  weight.product_of(x, with, stream);
}

// Adds to the columns of each part: y = residual + gate[row]·(low·Bᵀ · multiply).
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
               .residual = columns(epilogue.residual),
               .y = columns(y)},
              stream);
  }
}

void AdaptedLinear::after(const Tensor& x, const Tensor& y, Stream& stream, const Epilogue& e) const {
  Tensor low;
  if (codes_) {
    const WeightForm::Codes codes = linear_.weight().codes_of(x, stream);
    low = low_of(x, &codes, stream);
  } else {
    low = low_of(x, nullptr, stream);
  }
  if (e.act == ops::Activation::none) {  // the epilogue of the sum is the sum of two epilogues
    linear_(x, y, stream, e);
    Epilogue sum = e;
    sum.residual = y;
    return add(low, y, sum, stream);
  }
  const bool in_y = !e.residual.defined() && (e.multiply.defined() || y.contiguous());
  const Tensor t = in_y ? y : stream.arena->tensor(y.dtype, y.shape());
  linear_(x, t, stream);
  add(low, t, {.residual = t}, stream);
  if (e.multiply.defined())
    ops::glu({.a = t, .b = e.multiply, .kind = e.act, .y = t}, stream);
  else
    ops::activation({.x = t, .kind = e.act, .y = t}, stream);
  if (e.residual.defined())
    ops::gated_residual({.x = e.residual, .u = t, .gate = e.gate, .row = e.row, .y = y}, stream);
  else if (!in_y)
    ops::copy({.x = t, .y = y}, stream);
}

void AdaptedLinear::operator()(const Tensor& x, const Tensor& y, Stream& stream, const Epilogue& e) const {
  Stream plain = stream;
  plain.adapters = nullptr;
  const ArenaScope scope(*stream.arena);
  if (in_matrix(x.dim(0))) return by_matrix(linear_.arguments(x, y, e), plain);
  const bool linear = e.act == ops::Activation::none;
  if (codes_ && (linear || (covers_all() && !e.residual.defined())))
    return by_codes(linear_.arguments(x, y, e), plain);
  after(x, y, plain, e);
}

}  // namespace tachy::nn
