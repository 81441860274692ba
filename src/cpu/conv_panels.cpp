#include "cpu/conv_panels.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "cpu/widen.h"

namespace tachy::cpu {
namespace {

constexpr int64_t kStripeValues = int64_t{8} << 20;
// The pixels of a tile, whose sums for all channels stay in the second-level cache.
constexpr int64_t kTilePixels = 256;

int64_t segment_depth(int64_t ci, int64_t kernel_w, Compute compute) {
  return panel_depth(kernel_w * ci, compute);
}

int64_t value_bytes(Compute compute) { return compute == Compute::bf16 ? 2 : 4; }

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

struct Cut {
  int64_t out_h, out_w, depth, row;  // row is the length of a padded input row, in values
  int64_t taps, k, phases, block;    // k is the depth of the matrix; block is the bytes of a phase's weights
  int64_t padded_co, stripe_rows, stripe_inputs, tile_rows;
  int64_t stripe_bytes, tile_bytes;

  explicit Cut(const PanelConv& c) {
    phases = c.upsample ? 4 : 1;
    out_h = c.upsample ? c.h : (c.h + c.pad_top + c.pad_bottom - c.kernel_h) / c.stride + 1;
    out_w = c.upsample ? c.w : (c.w + c.pad_left + c.pad_right - c.kernel_w) / c.stride + 1;
    depth = segment_depth(c.ci, c.kernel_w, c.compute);
    row = (c.w + c.pad_left + c.pad_right) * c.ci;
    taps = c.kernel_t, k = taps * c.kernel_h * depth;
    block = conv_panels_bytes(taps, c.co, c.ci, c.kernel_h, c.kernel_w, c.compute);
    const int64_t last = panels_count(c.co, c.compute) - 1;
    padded_co = last * panel_columns(c.compute) + panel_width(c.co, last, c.compute);
    tile_rows = std::clamp<int64_t>(kTilePixels / out_w, 1, out_h);
    const int64_t halo = c.kernel_h + (c.upsample ? 1 : 0) - c.stride;
    const auto frames = static_cast<int64_t>(c.inputs.size());
    const int64_t fit = kStripeValues / (frames * row * c.stride) - halo / c.stride;
    stripe_rows = std::min(out_h, round_up(std::max<int64_t>(1, fit), tile_rows));
    stripe_inputs = stripe_rows * c.stride + std::max<int64_t>(0, halo);
    // Tiles read these rows and depths beyond the last one.
    const int64_t slack = 16 * c.stride * c.ci + depth;
    stripe_bytes = static_cast<int64_t>(
        align_up(static_cast<size_t>((frames * stripe_inputs * row + slack) * value_bytes(c.compute))));
    tile_bytes = static_cast<int64_t>(
        align_up(static_cast<size_t>(tile_rows * panel_rows(out_w, c.compute) * padded_co * 4)));
  }
};

// Converts `count` values of an input to the stripe's kind of values.
void place_values(const PanelConv& c, const char* from, int64_t count, char* to) {
  if (c.compute == Compute::f32) return widen(from, c.x, count, reinterpret_cast<float*>(to));
  auto* narrow = reinterpret_cast<uint16_t*>(to);
  if (c.x == DType::f32) return narrow_bf16(reinterpret_cast<const float*>(from), count, narrow);
  std::array<float, 1024> wide;
  for (int64_t i = 0; i < count; i += std::ssize(wide)) {
    const int64_t part = std::min<int64_t>(std::ssize(wide), count - i);
    widen(from + i * dtype_size(c.x), c.x, part, wide.data());
    narrow_bf16(wide.data(), part, narrow + i);
  }
}

// Copies padded input row `index` of a frame; row 0 is pad_top rows above the frame.
void place_row(const PanelConv& c, const void* frame, int64_t index, char* to) {
  const int64_t size = value_bytes(c.compute), middle = c.w * c.ci;
  const int64_t left = c.pad_left * c.ci * size, right = c.pad_right * c.ci * size, from = index - c.pad_top;
  if (from < 0 || from >= c.h) {
    std::memset(to, 0, static_cast<size_t>(left + middle * size + right));
    return;
  }
  std::memset(to, 0, static_cast<size_t>(left));
  place_values(c, static_cast<const char*>(frame) + from * middle * dtype_size(c.x), middle, to + left);
  std::memset(to + left + middle * size, 0, static_cast<size_t>(right));
}

// Computes rows [first, last) of output frame t, for one phase.
void run_tile(const PanelConv& c, const Cut& cut, const char* stripe, int64_t stripe_first, int64_t t,
              int64_t phase, int64_t first, int64_t last, float* sums) {
  const int64_t down = phase / 2, right = phase % 2,
                row_sums = panel_rows(cut.out_w, c.compute) * cut.padded_co;
  int64_t skipped = 0;  // leading time taps without a frame
  while (skipped < cut.taps && !c.inputs[static_cast<size_t>(t * c.time_stride + skipped)]) ++skipped;
  const int64_t segments = (cut.taps - skipped) * c.kernel_h;
  std::vector<const void*> x(static_cast<size_t>(segments));
  for (int64_t panel = 0; panel < panels_count(c.co, c.compute) && segments > 0; ++panel) {
    const int64_t width = panel_width(c.co, panel, c.compute);
    const char* weights = static_cast<const char*>(c.packed) + phase * cut.block +
                          panel_offset(cut.k, panel, c.compute) +
                          panel_k_bytes(width, skipped * c.kernel_h * cut.depth, c.compute);
    for (int64_t i = first; i < last; ++i) {
      for (int64_t s = 0; s < segments; ++s) {
        const int64_t frame = t * c.time_stride + skipped + s / c.kernel_h;
        const int64_t index = (i - stripe_first) * c.stride + s % c.kernel_h + down;
        x[static_cast<size_t>(s)] =
            stripe + ((frame * cut.stripe_inputs + index) * cut.row + right * c.ci) * value_bytes(c.compute);
      }
      panel_product({.x = x.data(),
                     .segments = segments,
                     .depth = cut.depth,
                     .x_stride = c.stride * c.ci,
                     .panel = weights,
                     .width = width,
                     .columns = std::min(width, c.co - panel * panel_columns(c.compute)),
                     .rows = cut.out_w,
                     .c = sums + (i - first) * row_sums + panel * panel_columns(c.compute),
                     .c_stride = cut.padded_co},
                    c.compute);
    }
  }
  const int64_t scale = c.upsample ? 2 : 1;
  const int64_t y_frame = c.y_frame ? c.y_frame : cut.out_h * cut.out_w * scale * scale * c.co;
  for (int64_t i = first; i < last; ++i) {
    float* row = sums + (i - first) * row_sums;
    if (segments == 0) std::fill_n(row, row_sums, 0.0f);
    if (c.finish) {
      for (int64_t j = 0; j < cut.out_w; ++j)
        c.finish((t * cut.out_h + i) * cut.out_w + j, row + j * cut.padded_co);
      continue;
    }
    const int64_t at = t * y_frame + ((i * scale + down) * cut.out_w * scale + right) * c.co;
    finish_panels({.c = row,
                   .c_stride = cut.padded_co,
                   .bias = c.bias,
                   .residual = c.residual ? c.residual + at : nullptr,
                   .y = c.y + at,
                   .y_stride = scale * c.co,
                   .rows = cut.out_w,
                   .n = c.co});
  }
}

}  // namespace

int64_t conv_panels_bytes(int64_t taps, int64_t co, int64_t ci, int64_t kernel_h, int64_t kernel_w,
                          Compute compute) {
  return panels_bytes(taps * kernel_h * segment_depth(ci, kernel_w, compute), co, compute);
}

void pack_conv_panels(const Tensor& weight, void* packed, Compute compute, ThreadPool& pool) {
  const int64_t co = weight.dim(0), ci = weight.dim(1), taps = weight.dim(2), kh = weight.dim(3),
                kw = weight.dim(4);
  const int64_t depth = segment_depth(ci, kw, compute), k = taps * kh * depth,
                size = weight.numel() / std::max<int64_t>(1, co);
  pool.run(panels_count(co, compute), [&](int64_t panel, int) {
    const int64_t width = panel_width(co, panel, compute), first = panel * panel_columns(compute);
    const int64_t count = std::min(width, co - first);
    std::vector<float> plain(static_cast<size_t>(size)), rows(static_cast<size_t>(count * k), 0.0f);
    std::vector<char> scratch(static_cast<size_t>(kPanelPackScratch));
    for (int64_t o = 0; o < count; ++o) {
      widen(static_cast<const char*>(weight.data) + (first + o) * size * dtype_size(weight.dtype),
            weight.dtype, size, plain.data());
      for (int64_t c = 0; c < ci; ++c)
        for (int64_t row = 0; row < taps * kh; ++row)
          for (int64_t q = 0; q < kw; ++q)
            rows[static_cast<size_t>(o * k + row * depth + q * ci + c)] =
                plain[static_cast<size_t>((c * taps * kh + row) * kw + q)];
    }
    pack_panel(rows.data(), DType::f32, k, count, k, k, width, compute,
               static_cast<char*>(packed) + panel_offset(k, panel, compute), scratch.data());
  });
}

void unpack_conv_panels(const void* packed, int64_t taps, int64_t co, int64_t ci, int64_t kernel_h,
                        int64_t kernel_w, float* plain, Compute compute) {
  const int64_t depth = segment_depth(ci, kernel_w, compute), k = taps * kernel_h * depth;
  for (int64_t row = 0; row < taps * kernel_h; ++row)
    for (int64_t i = 0; i < kernel_w * ci; ++i)
      for (int64_t o = 0; o < co; ++o) *plain++ = panel_value(packed, k, co, row * depth + i, o, compute);
}

const float* round_pixel(const float* x, std::vector<float>& pixel) {
  std::vector<uint16_t> bits(pixel.size());
  narrow_bf16(x, static_cast<int64_t>(pixel.size()), bits.data());
  widen(bits.data(), DType::bf16, static_cast<int64_t>(pixel.size()), pixel.data());
  return pixel.data();
}

void run_panel_conv(const PanelConv& c, Stream& stream) {
  const Cut cut(c);
  ArenaScope scope(*stream.arena);
  auto* stripe = static_cast<char*>(stream.arena->bytes(static_cast<size_t>(cut.stripe_bytes)));
  char* tiles =
      static_cast<char*>(stream.arena->bytes(static_cast<size_t>(stream.threads() * cut.tile_bytes)));
  if (stream.measuring()) return;
  const auto frames = static_cast<int64_t>(c.inputs.size());
  const int64_t row_bytes = cut.row * value_bytes(c.compute), used = frames * cut.stripe_inputs * row_bytes;
  std::memset(stripe + used, 0, static_cast<size_t>(cut.stripe_bytes - used));
  for (int64_t begin = 0; begin < cut.out_h; begin += cut.stripe_rows) {
    stream.throw_if_cancelled();
    const int64_t end = std::min(cut.out_h, begin + cut.stripe_rows);
    stream.pool->run(frames * cut.stripe_inputs, [&](int64_t i, int) {
      const void* frame = c.inputs[static_cast<size_t>(i / cut.stripe_inputs)];
      if (frame) place_row(c, frame, begin * c.stride + i % cut.stripe_inputs, stripe + i * row_bytes);
    });
    const int64_t row_tiles = (end - begin + cut.tile_rows - 1) / cut.tile_rows;
    stream.pool->run(c.outputs * cut.phases * row_tiles, [&](int64_t tile, int worker) {
      const int64_t first = begin + tile % row_tiles * cut.tile_rows, phase = tile / row_tiles % cut.phases;
      run_tile(c, cut, stripe, begin, tile / row_tiles / cut.phases, phase, first,
               std::min(end, first + cut.tile_rows),
               reinterpret_cast<float*>(tiles + worker * cut.tile_bytes));
    });
  }
}

}  // namespace tachy::cpu
