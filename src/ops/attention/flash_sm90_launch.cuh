// Launches flash_sm90.cuh: tensor maps of q, k and v, the distribution of the work, and room for the shares.
#pragma once

#include "cuda/dispatch.h"
#include "cuda/overlap.h"
#include "cuda/tensor_map.h"
#include "ops/attention/attention_cuda.h"
#include "ops/attention/flash_params.cuh"
#include "ops/attention/flash_sm90.cuh"
#include "ops/attention/flash_sm90_merge.cuh"

namespace tachy::ops::flash {

// The map of a [B, L, H, D] tensor, in boxes of 64 columns and `rows` tokens of one head.
inline CUtensorMap tokens_map(const Tensor& t, int64_t rows) {
  cuda::TensorMapShape m{.rank = 4,
                         .dims = {t.dims[3], t.dims[1], t.dims[2], t.dims[0]},
                         .strides = {1, t.strides[1], t.strides[2], t.strides[0]},
                         .box = {64, rows, 1, 1}};
  for (int i = 1; i < 4; ++i)
    if (m.dims[i] == 1) m.strides[i] = 8;  // unused, but the driver checks it
  return cuda::make_tensor_map("attention", t.dtype, t.data, m);
}

// Whether cutting the units of an incomplete last round pays: compares the part of the round's time that it
// saves with the cost of another kernel and of moving the shares through memory, in µs on an H200.
inline bool worth_cutting(int units, int clusters, double unit_us) {
  const int rest = units % clusters;
  if (rest == 0) return false;
  return unit_us * (clusters - rest) / clusters > 15;
}

inline Params90 params90(const AttentionArgs& a) {
  Params90 p{};
  p.out = a.out.data, p.out_batch = a.out.strides[0], p.out_row = a.out.strides[1],
  p.out_head = a.out.strides[2];
  if (a.lse.defined())
    p.lse = static_cast<float*>(a.lse.data), p.lse_batch = a.lse.strides[0], p.lse_head = a.lse.strides[1];
  p.lq = static_cast<int>(a.q.dims[1]), p.ranges = a.ranges();
  for (int i = 0; i < p.ranges; ++i) {
    const KeyRange r = a.range(i);
    Range90& to = p.ranges_of[i];
    to = {.most = static_cast<int>(r.k.dims[1]), .there = static_cast<const int32_t*>(r.length.data)};
    if (r.key_bias.defined())
      to.bias = static_cast<const float*>(r.key_bias.data), to.bias_batch = r.key_bias.strides[0];
    to.causal = r.causal, to.offset = static_cast<int>(r.causal_offset),
    to.block = static_cast<int>(r.causal_block);
    p.lk += to.most;
  }
  p.d = static_cast<int>(a.q.dims[3]), p.heads = static_cast<int>(a.q.dims[2]);
  p.scale = a.scale, p.scale_log2 = a.scale == kPowersOfTwo ? 1 : a.scale * 1.44269504088896340736f;
  p.lists = lists_of(a);
  return p;
}

template <class C>
Maps90<C> maps90(const AttentionArgs& a) {
  Maps90<C> maps{};
  maps.q = tokens_map(a.q, C::kRows / 2);
  for (int i = 0; i < a.ranges() && i < C::kMaps; ++i)
    maps.k[i] = tokens_map(a.range(i).k, C::kPart), maps.v[i] = tokens_map(a.range(i).v, C::kPart);
  return maps;
}

template <class C>
void launch90(const char* name, const AttentionArgs& a, const Params90& p, int clusters,
              const Stream& stream) {
  cuda::launch_overlapping(name, flash90_kernel<C>,
                           {.grid = dim3(static_cast<unsigned>(clusters * C::kCluster)),
                            .block = dim3(384),
                            .shared_bytes = C::kSharedBytes,
                            .cluster = C::kCluster},
                           stream, maps90<C>(a), p);
}

// The number of steps through all keys, which is the most that a unit has.
template <class C>
int steps90(const Params90& p) {
  int steps = 0;
  for (int i = 0; i < p.ranges; ++i) steps += (p.ranges_of[i].most + C::kKeys - 1) / C::kKeys;
  return steps;
}

// With listed blocks: the number of pieces into which the units of a last round are cut. It is the one with
// the lowest cost, in units' times, if each piece adds a hundredth of a unit for its start and end.
inline int pieces_of(int units, int blocks) {
  constexpr int kMost = 8;
  const auto cost = [&](int pieces) {
    return static_cast<double>((units * pieces + blocks - 1) / blocks) / pieces + 0.01 * pieces;
  };
  int best = 1;
  for (int pieces = 2; pieces <= kMost; ++pieces)
    if (cost(pieces) < cost(best)) best = pieces;
  return best;
}

// Decides how the units of a call are distributed. Returns the number of clusters.
template <class C>
int share_out(const AttentionArgs& a, const Stream& stream, Params90& p) {
  p.units_per_head = (p.lq + C::kUnitRows - 1) / C::kUnitRows;
  const int64_t all = a.q.dims[0] * a.q.dims[2] * p.units_per_head;
  check(all <= 0x7fffffff / C::kCluster, ErrorCode::unsupported, "attention: too many queries");
  const int units = static_cast<int>(all);
  const int clusters = stream.gpu->info().multiprocessors / C::kCluster;
  const double step_us = 4e-6 * C::kRows * C::kKeys * C::kDim / 5.3;  // 700 TFLOP/s
  const int steps = C::kLists ? p.lists.capacity : steps90<C>(p);     // at most, for one unit
  p.cut_units = !C::kMasks && worth_cutting(units, clusters, step_us * steps) ? units % clusters : 0;
  p.whole_units = units - p.cut_units;
  if constexpr (C::kLists) {
    p.pieces = pieces_of(p.cut_units, clusters);
    return std::min(clusters, p.whole_units + p.cut_units * p.pieces);
  } else {
    return p.cut_units == 0 ? std::min(clusters, units) : clusters;
  }
}

// Allocates room for intermediate data of units: notes, the shares of those that are cut, and the order of
// those with lists.
template <class C>
void take_scratch(Params90& p, int clusters, Arena& arena) {
  const int units = p.whole_units + p.cut_units;
  if constexpr (!C::kTracks)
    p.outgrown = static_cast<uint8_t*>(arena.bytes(static_cast<size_t>(units) * C::kNotes));
  if (p.cut_units > 0) {
    const int shares = C::kLists ? p.cut_units * p.pieces : 2 * clusters;
    const size_t rows = static_cast<size_t>(shares) * C::kUnitRows;
    p.shares = static_cast<float*>(arena.bytes(rows * C::kDim * sizeof(float)));
    p.share_sums = static_cast<float2*>(arena.bytes(rows * sizeof(float2)));
  }
  if constexpr (C::kLists) {
    p.order = static_cast<int32_t*>(arena.bytes(static_cast<size_t>(units) * sizeof(int32_t)));
    p.ticket = static_cast<uint32_t*>(arena.bytes(sizeof(uint32_t)));
  }
}

template <class T, int kDim, int kKeys, int kCluster, bool kBare = false, Keys90 kOf = Keys90::whole>
void run90(const AttentionArgs& a, Stream& stream) {
  using C = Tile90<T, kDim, kKeys, kCluster, kBare, false, kOf>;
  Params90 p = params90(a);
  // Scores with biases already contain the scale.
  if constexpr (C::kBiases) p.scale_log2 = 1.44269504088896340736f;
  const int clusters = share_out<C>(a, stream, p), units = p.whole_units + p.cut_units;
  const int repairing = std::min(stream.gpu->info().multiprocessors / kCluster, units);
  ArenaScope scope(*stream.arena);
  take_scratch<C>(p, clusters, *stream.arena);
  if (stream.measuring()) return;
  if constexpr (C::kLists)
    cuda::launch("attention (flash_sm90, order)", flash90_order<C>,
                 {.grid = dim3(static_cast<unsigned>(units / p.units_per_head)), .block = dim3(256)}, stream,
                 p);
  launch90<C>("attention (flash_sm90)", a, p, clusters, stream);
  if constexpr (!C::kMasks)
    if (p.cut_units > 0)
      cuda::launch_overlapping(
          "attention (flash_sm90, merge)", flash90_merge<C>,
          {.grid = dim3(C::kUnitRows / 8, static_cast<unsigned>(p.cut_units)), .block = dim3(256)}, stream, p,
          clusters);
  if constexpr (!C::kTracks) {
    p.cut_units = 0, p.whole_units = units;
    launch90<Tile90<T, kDim, kKeys, kCluster, false, true, kOf>>("attention (flash_sm90, repair)", a, p,
                                                                 repairing, stream);
  }
}

// Nothing is subtracted if scores are powers of two. Otherwise, with ranges and lists, the subtracted value
// is tracked (this saves compiling the second kernel that whole ranges have, and is 10 % slower).
template <class T, int kDim, int kKeys, int kCluster, Keys90 kOf>
void run90_partial(const AttentionArgs& a, Stream& stream) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    if (a.scale == kPowersOfTwo) return run90<T, kDim, kKeys, kCluster, true, kOf>(a, stream);
  run90<T, kDim, kKeys, kCluster, false, kOf>(a, stream);
}

// The requirements of every launch.
inline std::optional<Refusal> why_not_sm90(const AttentionArgs& a, const Stream& stream) {
  if (stream.gpu->info().major != 9) return Refusal::machine("the GPU is not Hopper");
  if (!cuda::tensor_maps_available()) return Refusal::machine("the driver has no tensor maps");
  if (a.bias.defined()) return Refusal::arguments("a bias of each query and key");
  if (a.accumulate) return Refusal::arguments("an accumulating output");
  return std::nullopt;
}

}  // namespace tachy::ops::flash
