#include "nn/attention.h"

#include <algorithm>

#include "ops/qk_norm_rope/qk_norm_rope.h"
#include "runtime/pace.h"

namespace tachy::nn {
namespace {

void normalise(const Norm& norm, const Tensor& t, Stream& stream) {
  if (!norm.defined()) return;
  const Tensor rows = Attention::by_batch(t, 1);
  ops::qk_norm_rope({.x = rows, .weight = norm.weight, .eps = norm.eps, .y = rows}, stream);
}

}  // namespace

void attention_in_pieces(const ops::AttentionArgs& a, Stream& stream) {
  const int64_t batch = a.q.dim(0), heads = a.q.dim(2);
  const bool lists = a.blocks.defined();
  const int64_t keys =
      lists ? std::min(a.k.dim(1), a.blocks.indices.dim(3) * a.blocks.most_keys()) : a.k.dim(1);
  const double item = 4.0 * static_cast<double>(a.q.dim(1)) * static_cast<double>(keys) *
                      static_cast<double>(heads * a.q.dim(3));
  const double of_head = item / static_cast<double>(heads);
  const int64_t together = runtime::heads_a_call(stream, heads, of_head);
  if (together == 0 && runtime::heads_at_a_time(stream, heads, item * static_cast<double>(batch)) == heads)
    return ops::attention(a, stream);
  const int64_t most = together > 0 ? together : heads;
  const int64_t some = runtime::heads_at_a_time(stream, most, of_head * static_cast<double>(most));
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; h += some) {
      if (b + h > 0) runtime::checkpoint(stream);
      const auto part = [&](const Tensor& t) {
        return t.slice(0, b, b + 1).slice(2, h, std::min(heads, h + some));
      };
      const auto lists_of = [&](const Tensor& t) {  // one list may serve the whole batch
        return (t.dim(0) > 1 ? t.slice(0, b, b + 1) : t).slice(1, h, std::min(heads, h + some));
      };
      ops::AttentionArgs some_heads{.q = part(a.q),
                                    .k = part(a.k),
                                    .v = part(a.v),
                                    .scale = a.scale,
                                    .eight_bits = a.eight_bits,
                                    .eight_bits_of_few = a.eight_bits_of_few,
                                    .out = part(a.out)};
      if (a.lse.defined()) some_heads.lse = a.lse.slice(0, b, b + 1).slice(1, h, std::min(heads, h + some));
      if (lists)
        some_heads.blocks = {lists_of(a.blocks.indices), lists_of(a.blocks.counts), a.blocks.queries,
                             a.blocks.keys};
      ops::attention(some_heads, stream);
    }
}

Attention::Attention(const Scope& scope, ParamStore& store, const Layers& l)
    : heads(l.heads), head_dim(l.head_dim) {
  const int64_t inner = l.heads * l.head_dim;
  const Scope parts[] = {scope.sub(l.q), scope.sub(l.k), scope.sub(l.v)};
  if (l.joined) {
    qkv = Linear::joined(parts, store, l.channels, inner, l.biases);
  } else {
    q = Linear(parts[0], store, l.channels, inner, l.biases);
    k = Linear(parts[1], store, l.channels, inner, l.biases);
    v = Linear(parts[2], store, l.channels, inner, l.biases);
  }
  out = Linear(scope.sub(l.out), store, inner, l.channels, l.biases);
}

Tensor Attention::by_batch(const Tensor& t, int64_t batch) {
  Tensor view(t.data, t.dtype, {batch, t.dim(0) / batch, t.dim(1)}, t.device);
  view.strides[1] = t.stride(0), view.strides[0] = view.dims[1] * t.stride(0);
  return view;
}

Tensor Attention::by_heads(const Tensor& t, int64_t batch) const {
  Tensor view(t.data, t.dtype, {batch, t.dim(0) / batch, heads, head_dim}, t.device);
  view.strides[1] = t.stride(0), view.strides[0] = view.dims[1] * t.stride(0);
  return view;
}

Attention::Projected Attention::project(const Tensor& x, Stream& stream, const RowCodes& codes) const {
  const int64_t rows = x.dim(0), inner = heads * head_dim;
  const auto room = [&](int64_t columns) {
    return stream.arena->tensor(stream.precision.activation, {rows, columns});
  };
  const auto product = [&](const Linear& linear, const Tensor& y) {
    codes.defined() ? linear(codes, y, stream) : linear(x, y, stream);
  };
  if (qkv.defined()) {
    const Tensor all = room(3 * inner);
    product(qkv, all);
    const auto part = [&](int64_t i) { return all.slice(1, i * inner, (i + 1) * inner); };
    return {part(0), part(1), part(2)};
  }
  const Projected made{room(inner), room(inner), room(inner)};
  product(q, made.q);
  product(k, made.k);
  product(v, made.v);
  return made;
}

void Attention::keys(const Tensor& x, const Tensor& to_k, const Tensor& to_v, Stream& stream) const {
  k(x, to_k, stream);
  v(x, to_v, stream);
  normalise(norm_k, to_k, stream);
}

void Attention::operator()(const Tensor& x, const Tensor& y, const Tensor& residual, const AttentionInput& in,
                           Stream& stream) const {
  const ArenaScope scope(*stream.arena);
  const Tensor mixed = stream.arena->tensor(stream.precision.activation, {x.dim(0), heads * head_dim});
  ProfileRange part(stream.hooks.profiler, "q, k, v", ProfileKind::linear);
  const Projected p = project(x, stream);
  normalise(norm_q, p.q, stream);
  normalise(norm_k, p.k, stream);
  part.next("attention", ProfileKind::attention);
  ops::attention({.q = by_heads(p.q, in.batch),
                  .k = by_heads(p.k, in.batch),
                  .v = by_heads(p.v, in.batch),
                  .key_bias = in.key_bias,
                  .bias = in.bias,
                  .scale = in.scale,
                  .out = by_heads(mixed, in.batch)},
                 stream);
  part.next("out + residual", ProfileKind::linear);
  out(mixed, y, stream, {.residual = residual});
}

}  // namespace tachy::nn
