#include "nn/mlp.h"

#include <algorithm>

#include "runtime/pace.h"

namespace tachy::nn {

void Mlp::operator()(const Tensor& x, const Tensor& y, Stream& stream, int64_t free_rows) const {
  Arena& arena = *stream.arena;
  const ArenaScope scope(arena);
  const int64_t rows = x.dim(0), piece = runtime::rows_at_a_time(stream, rows, free_rows);
  const Tensor hidden = arena.tensor(stream.precision.activation, {std::min(rows, piece), up.out()});
  ProfileRange part(stream.hooks.profiler);
  for (int64_t begin = 0; begin < rows; begin += piece) {
    const int64_t end = std::min(rows, begin + piece);
    const Tensor wide = hidden.slice(0, 0, end - begin);
    runtime::checkpoint(stream);
    part.next("up + activation", ProfileKind::linear);
    up(x.slice(0, begin, end), wide, stream, {.act = act});
    part.next("down", ProfileKind::linear);
    down(wide, y.slice(0, begin, end), stream);
  }
}

}  // namespace tachy::nn
