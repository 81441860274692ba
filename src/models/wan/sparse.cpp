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

std::vector<int32_t> cube_places(int64_t frames, int64_t rows, int64_t columns, std::vector<int32_t>& ends) {
  constexpr int64_t kCube = 4;
  std::vector<int32_t> places(static_cast<size_t>(frames * rows * columns));
  int32_t next = 0;
  ends.clear();
  for (int64_t t0 = 0; t0 < frames; t0 += kCube)
    for (int64_t h0 = 0; h0 < rows; h0 += kCube)
      for (int64_t w0 = 0; w0 < columns; w0 += kCube) {
        for (int64_t t = t0; t < std::min(frames, t0 + kCube); ++t)
          for (int64_t h = h0; h < std::min(rows, h0 + kCube); ++h)
            for (int64_t w = w0; w < std::min(columns, w0 + kCube); ++w)
              places[static_cast<size_t>((t * rows + h) * columns + w)] = next++;
        ends.push_back(next);
      }
  return places;
}

std::vector<int32_t> places_for(const WanSparse& sparse, const WanConfig& config, int64_t frames,
                                int64_t rows, int64_t columns) {
  if (sparse.chooser != KeyChooser::trained) return compact_places(frames, rows, columns);
  std::vector<int32_t> ends;
  if (config.trained == TrainedSparse::cubes) return cube_places(frames, rows, columns, ends);
  return {};
}

KeyChooser parse_key_chooser(std::string_view name) {
  if (name == "top-k") return KeyChooser::top_k;
  if (name == "sliding-tile") return KeyChooser::sliding_tile;
  if (name == "trained") return KeyChooser::trained;
  fail(ErrorCode::invalid_argument, "expected top-k, sliding-tile or trained, got '{}'", name);
}

int64_t kept_blocks(double share, int64_t tokens) {
  const int64_t blocks = ops::chosen_blocks(tokens);
  return std::clamp<int64_t>(std::llround(share * static_cast<double>(blocks)), 1, blocks);
}

namespace {

// Rounding of a share as decimal numbers have it must not count as a block.
constexpr double kTiny = 1e-9;

// VSA cuts queries and keys into the same cubes, and rounds their number up. SLA has blocks of 128 queries and of 64
// keys in the video's order, and rounds down.
WanKeys trained_keys(double share, TrainedSparse kind, const WanGrid& grid, nn::ParamStore& store) {
  constexpr int64_t kMost = 64;
  std::vector<int32_t> ends;
  if (kind == TrainedSparse::cubes)
    cube_places(grid.frames, grid.rows, grid.columns, ends);
  else
    for (int64_t end = 0; end < grid.tokens();)
      ends.push_back(static_cast<int32_t>(end = std::min(grid.tokens(), end + kMost)));
  const auto blocks = static_cast<int64_t>(ends.size());
  const double wanted = share * static_cast<double>(blocks);
  const double keep = kind == TrainedSparse::cubes ? std::ceil(wanted - kTiny) : std::floor(wanted + kTiny);
  const ops::BlockCuts cuts{store.uploaded(ends.data(), DType::i32, {blocks}), kMost};
  WanKeys keys{.keep = std::clamp<int64_t>(static_cast<int64_t>(keep), 1, blocks),
               .lists = {},
               .trained = true,
               .query_blocks = {},
               .key_blocks = cuts,
               .query_block_of = {}};
  if (kind == TrainedSparse::cubes) {
    std::vector<int32_t> block_of;
    for (int32_t i = 0; i < static_cast<int32_t>(blocks); ++i)
      block_of.resize(static_cast<size_t>(ends[static_cast<size_t>(i)]), i);
    keys.query_blocks = cuts,
    keys.query_block_of = store.uploaded(block_of.data(), DType::i32, {grid.tokens()});
  }
  return keys;
}

}  // namespace

WanKeys make_keys(const WanSparse& sparse, const WanConfig& config, const WanGrid& grid,
                  nn::ParamStore& store) {
  if (sparse.chooser == KeyChooser::trained) {
    check(config.trained != TrainedSparse::none, ErrorCode::internal,
          "sparse: the model was not trained with sparse attention");
    return trained_keys(sparse.share, config.trained, grid, store);
  }
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
