#include "nn/mlp.h"

#include <algorithm>

#include "ops/activation/activation.h"
#include "runtime/pace.h"

namespace tachy::nn {

void Mlp::operator()(const Tensor& x, const Tensor& y, Stream& stream, const Options& options) const {
  Arena& arena = *stream.arena;
  const ArenaScope scope(arena);
  const int64_t rows = x.dim(0), piece = runtime::rows_at_a_time(stream, rows, options.free_rows);
  const auto room = [&] {
    return arena.tensor(stream.precision.activation, {std::min(rows, piece), up.out()});
  };
  const Tensor hidden = room(), gates = gate.defined() ? room() : Tensor();
  const bool fused = !stream.without.has(Optimisation::fused_activations);
  const Epilogue activated{.act = fused ? act : ops::Activation::none};
  const auto activate = [&](const Tensor& t) {
    if (!fused) ops::activation({.x = t, .kind = act, .y = t}, stream);
  };
  ProfileRange part(stream.hooks.profiler);
  for (int64_t begin = 0; begin < rows; begin += piece) {
    const int64_t end = std::min(rows, begin + piece);
    const auto piece_of = [&](const Tensor& t) { return t.defined() ? t.slice(0, begin, end) : t; };
    const Tensor in = piece_of(x), wide = hidden.slice(0, 0, end - begin);
    runtime::checkpoint(stream);
    part.next("up + activation", ProfileKind::linear);
    if (gate.defined()) {
      const Tensor gated = gates.slice(0, 0, end - begin);
      gate(in, gated, stream, activated);
      activate(gated);
      up(in, wide, stream, {.multiply = gated});
    } else if (options.codes.defined()) {
      up(options.codes.slice(begin, end), wide, stream, activated);
      activate(wide);
    } else {
      up(in, wide, stream, activated);
      activate(wide);
    }
    part.next("down", ProfileKind::linear);
    down(wide, piece_of(y), stream, {.residual = piece_of(options.residual)});
  }
}

}  // namespace tachy::nn
