// Packing of panels of both kinds (panels.h), and narrowing to bf16. A panel is the transpose of
// the weight's rows: pieces that fit into the first-level cache are widened or narrowed, then
// transposed by squares in registers.
#include <algorithm>
#include <cstring>

#include "cpu/panels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/panels_pack.cpp"
#include <hwy/foreach_target.h>
// The order matters: highway.h sees the target that foreach_target.h set.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "cpu/simd_rows.h"

HWY_BEFORE_NAMESPACE();
namespace tachy::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// to[k·width + j] = from[j·stride + k] for j < count, k < depth, with 4-byte values of any meaning. `ahead`
// is the distance at which values are prefetched meanwhile; 0 means that none are.
void transpose_words(const float* from, int64_t stride, int64_t count, int64_t depth, float* to,
                     int64_t width, int64_t ahead) {
  int64_t j = 0;
  const auto rows = [&](auto&& transpose, int64_t step) HWY_ATTR {
    for (; j + step <= count; j += step) {
      int64_t k = 0;
      for (; k + step <= depth; k += step) {
        if (ahead)
          for (int64_t i = 0; i < step; ++i) hwy::Prefetch(from + (j + i) * stride + k + ahead);
        transpose(from + j * stride + k, stride, to + k * width + j, width);
      }
      for (; k < depth; ++k)
        for (int64_t i = 0; i < step; ++i)
          std::memcpy(to + k * width + j + i, from + (j + i) * stride + k, 4);
    }
  };
  if (depth >= kSquare) rows([](auto... args) HWY_ATTR { transpose_square(args...); }, kSquare);
  rows([](auto... args) HWY_ATTR { transpose_4x4(args...); }, 4);
  for (; j < count; ++j)
    for (int64_t k = 0; k < depth; ++k) std::memcpy(to + k * width + j, from + j * stride + k, 4);
}

void narrow(const float* from, int64_t count, uint16_t* to) {
  const hn::ScalableTag<uint32_t> d;
  const hn::Rebind<uint16_t, decltype(d)> half;
  const hn::RebindToFloat<decltype(d)> f;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto value = hn::LoadU(f, from + i);
    const auto bits = hn::BitCast(d, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7fff)));
    const auto quiet = hn::Or(bits, hn::Set(d, 0x400000));
    const auto nan = hn::RebindMask(d, hn::IsNaN(value));
    hn::StoreU(hn::TruncateTo(half, hn::ShiftRight<16>(hn::IfThenElse(nan, quiet, rounded))), half, to + i);
  }
  for (; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, from + i, 4);
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    to[i] = static_cast<uint16_t>((nan ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
  }
}

}  // namespace tachy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/widen.h"

namespace tachy::cpu {

HWY_EXPORT(transpose_words);
HWY_EXPORT(narrow);

namespace {

constexpr int64_t kColumns = 48, kBf16Columns = 32, kStep = 16;
// The number of K values of a panel's rows that are widened at a time: with their results they fit into the
// first-level cache.
constexpr int64_t kPackDepth = 64;
constexpr int64_t kPackStride = kPackDepth + 16;  // rows 256 bytes apart would share a few sets of the cache
constexpr int64_t kMaxColumns = 64;

}  // namespace

int64_t panel_columns(Compute compute) { return compute == Compute::bf16 ? kBf16Columns : kColumns; }

int64_t panels_count(int64_t n, Compute compute) {
  const int64_t columns = panel_columns(compute);
  return (n + columns - 1) / columns;
}

int64_t panel_width(int64_t n, int64_t panel, Compute compute) {
  const int64_t columns = panel_columns(compute), rest = n - panel * columns;
  return std::min(columns, (rest + kStep - 1) / kStep * kStep);
}

int64_t panels_bytes(int64_t k, int64_t n, Compute compute) {
  const int64_t last = panels_count(n, compute) - 1;
  return static_cast<int64_t>(align_up(static_cast<size_t>(
      panel_offset(k, last, compute) + panel_k_bytes(panel_width(n, last, compute), k, compute))));
}

void pack_panel(const void* rows, DType dtype, int64_t stride, int64_t count, int64_t k_given, int64_t k,
                int64_t width, Compute compute, void* packed, void* scratch) {
  static_assert(kPanelPackScratch == kMaxColumns * kPackStride * 6);
  const int64_t size = dtype_size(dtype);
  float* wide = static_cast<float*>(scratch);
  auto* narrow_rows = reinterpret_cast<uint16_t*>(wide + kMaxColumns * kPackStride);
  float* to = static_cast<float*>(packed);
  const bool bf16 = compute == Compute::bf16;
  const auto transpose = HWY_DYNAMIC_DISPATCH(transpose_words);
  if (count < width || k_given < k) std::memset(to, 0, static_cast<size_t>(panel_k_bytes(width, k, compute)));
  for (int64_t begin = 0; begin < k_given; begin += kPackDepth) {
    const int64_t depth = std::min(kPackDepth, k_given - begin);
    const char* from = static_cast<const char*>(rows) + begin * size;
    // Rows are read in pieces that are too short for the CPU to predict the next one, so it is prefetched.
    if (!bf16 && dtype == DType::f32 && reinterpret_cast<uintptr_t>(from) % 4 == 0) {
      transpose(reinterpret_cast<const float*>(from), stride, count, depth, to + begin * width, width,
                kPackDepth);
      continue;
    }
    for (int64_t j = 0; j < count; ++j, from += stride * size) {
      for (int64_t byte = 0; byte < kPackDepth * size; byte += 64)
        hwy::Prefetch(from + kPackDepth * size + byte);
      uint16_t* row = narrow_rows + j * kPackStride;
      if (bf16 && dtype == DType::bf16) {
        std::memcpy(row, from, static_cast<size_t>(depth) * 2);
      } else {
        widen(from, dtype, depth, wide + j * kPackStride);
        if (bf16) narrow_bf16(wide + j * kPackStride, depth, row);
      }
      if (bf16 && depth % 2) row[depth] = 0;
    }
    if (bf16)
      transpose(reinterpret_cast<const float*>(narrow_rows), kPackStride / 2, count, (depth + 1) / 2,
                to + begin / 2 * width, width, 0);
    else
      transpose(wide, kPackStride, count, depth, to + begin * width, width, 0);
  }
}

float panel_value(const void* packed, int64_t depth, int64_t n, int64_t k, int64_t column, Compute compute) {
  const int64_t panel = column / panel_columns(compute), j = column % panel_columns(compute);
  const int64_t width = panel_width(n, panel, compute);
  const char* from = static_cast<const char*>(packed) + panel_offset(depth, panel, compute);
  float value;
  if (compute == Compute::bf16)
    widen(from + ((k / 2 * width + j) * 2 + k % 2) * 2, DType::bf16, 1, &value);
  else
    std::memcpy(&value, from + (k * width + j) * 4, 4);
  return value;
}

void narrow_bf16(const float* from, int64_t count, uint16_t* to) {
  HWY_DYNAMIC_DISPATCH(narrow)(from, count, to);
}

}  // namespace tachy::cpu
#endif
