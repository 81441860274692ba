#include "models/wan/sparse.h"

#include <algorithm>
#include <cmath>

#include "models/wan/dit.h"
#include "ops/choose_blocks/choose_blocks.h"

namespace tachy {
namespace {

// Rods are about kSide x kSide tokens wide, so kSide columns of a rod are a cube.
constexpr int64_t kSide = 5;

int64_t parts_of(int64_t extent) { return std::max<int64_t>(1, (2 * extent + kSide) / (2 * kSide)); }

struct Span {
  int64_t begin, end;
};
Span part_of(int64_t extent, int64_t parts, int64_t i) {
  return {i * extent / parts, (i + 1) * extent / parts};
}

}  // namespace

std::vector<int32_t> compact_places(int64_t frames, int64_t rows, int64_t columns) {
  std::vector<int32_t> places(static_cast<size_t>(frames * rows * columns));
  const int64_t slabs = parts_of(frames), rods = parts_of(rows);
  int32_t next = 0;
  for (int64_t slab = 0; slab < slabs; ++slab)
    for (int64_t rod = 0; rod < rods; ++rod) {
      const Span time = part_of(frames, slabs, slab);
      const Span high = part_of(rows, rods, slab % 2 == 0 ? rod : rods - 1 - rod);
      const bool back = (slab * rods + rod) % 2 == 1;
      for (int64_t i = 0; i < columns; ++i)
        for (int64_t t = time.begin; t < time.end; ++t)
          for (int64_t h = high.begin; h < high.end; ++h)
            places[static_cast<size_t>((t * rows + h) * columns + (back ? columns - 1 - i : i))] = next++;
    }
  return places;
}

KeyChooser parse_key_chooser(std::string_view name) {
  if (name == "top-k") return KeyChooser::top_k;
  if (name == "sliding-tile") return KeyChooser::sliding_tile;
  fail(ErrorCode::invalid_argument, "expected top-k or sliding-tile, got '{}'", name);
}

int64_t kept_blocks(double share, int64_t tokens) {
  const int64_t blocks = ops::chosen_blocks(tokens);
  return std::clamp<int64_t>(std::llround(share * static_cast<double>(blocks)), 1, blocks);
}

WanKeys make_keys(const WanSparse& sparse, const WanGrid& grid, nn::ParamStore& store) {
  const int64_t keep = kept_blocks(sparse.share, grid.tokens()), blocks = ops::chosen_blocks(grid.tokens());
  if (sparse.chooser == KeyChooser::top_k) return {.keep = keep, .lists = {}};
  const std::vector<int32_t> lists = ops::sliding_tile_blocks(
      {.grid = {grid.frames, grid.rows, grid.columns}, .place = grid.places, .keep = keep});
  const std::vector<int32_t> counts(static_cast<size_t>(blocks), static_cast<int32_t>(keep));
  return {.keep = 0,
          .lists = {store.uploaded(lists.data(), DType::i32, {1, 1, blocks, keep}),
                    store.uploaded(counts.data(), DType::i32, {1, 1, blocks})}};
}

ops::BlockLists WanKeys::for_heads(const Tensor& q, const Tensor& k, Stream& stream) const {
  const int64_t batch = q.dim(0), heads = q.dim(2), blocks = ops::chosen_blocks(q.dim(1));
  if (lists.defined()) {
    ops::BlockLists out = lists;
    for (Tensor* t : {&out.indices, &out.counts}) t->dims[1] = heads, t->strides[1] = 0;
    return out;
  }
  if (keep == 0) return {};
  const ops::BlockLists out{stream.arena->tensor(DType::i32, {batch, heads, blocks, keep}),
                            stream.arena->tensor(DType::i32, {batch, heads, blocks})};
  ops::choose_blocks({.q = q, .k = k, .keep = keep, .indices = out.indices, .counts = out.counts}, stream);
  return out;
}

}  // namespace tachy
