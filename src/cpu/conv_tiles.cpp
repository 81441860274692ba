#include "cpu/conv_tiles.h"

#include <algorithm>

#include "cpu/widen.h"

namespace tachy::cpu {
namespace {

// A band has about this many output pixels: enough to keep the library's call below 1 % of the work, and few
// enough that a band's input, output and weights stay in a core's second-level cache.
constexpr int64_t kBandPixels = 512;

}  // namespace

ConvTiles::ConvTiles(const ConvShape& frame) : frame_(frame) {
  const int64_t out_h = frame.out_h();
  int64_t rows = std::max<int64_t>(1, kBandPixels / frame.out_w());
  // There are at least two bands per frame, so that one frame keeps two cores busy.
  rows = std::min(rows, (out_h + 1) / 2);
  const int64_t count = (out_h + rows - 1) / rows;
  rows = (out_h + count - 1) / count;
  for (int64_t first = 0; first < out_h; first += rows) {
    Band band{.first_row = first, .rows = std::min(rows, out_h - first)};
    const int64_t begin = first * frame.stride - frame.pad_top;
    const int64_t end = begin + (band.rows - 1) * frame.stride + frame.kernel_h;
    band.first_input = std::max<int64_t>(0, begin);
    band.input_rows = std::min(end, frame.h) - band.first_input;
    bands_.push_back(band);
  }
}

void ConvTiles::prepare(bool bias, bool accumulate) {
  auto& kernels = kernels_[bias + 2 * accumulate];
  if (!kernels.empty()) return;
  for (const Band& band : bands_) {
    ConvShape shape = frame_;
    const int64_t begin = band.first_row * frame_.stride - frame_.pad_top;
    const int64_t end = begin + (band.rows - 1) * frame_.stride + frame_.kernel_h;
    shape.h = band.input_rows;
    shape.pad_top = band.first_input - begin;
    shape.pad_bottom = end - (band.first_input + band.input_rows);
    shape.bias = bias;
    shape.accumulate = accumulate;
    const TileKernel& kernel = conv_kernel(shape);
    if (!kernel.fast()) why_not_ = Refusal{Refusal::Why::library, "oneDNN offers only ", kernel.impl()};
    scratch_bytes_ = std::max(scratch_bytes_, kernel.scratch_bytes());
    kernels.push_back(&kernel);
  }
}

void ConvTiles::run(int64_t index, const float* frame, const void* weights, const float* bias,
                    bool accumulate, float* y, void* scratch) const {
  run_band(index, frame, weights, bias, accumulate, y + band(index).first_row * frame_.out_w() * frame_.co,
           scratch);
}

void ConvTiles::run_band(int64_t index, const float* frame, const void* weights, const float* bias,
                         bool accumulate, float* y_band, void* scratch) const {
  const TileKernel& kernel = *kernels_[(bias != nullptr) + 2 * accumulate][static_cast<size_t>(index)];
  kernel.run(frame + band(index).first_input * frame_.w * frame_.ci, weights, bias, y_band, scratch);
}

void pack_conv_parts(const Tensor& weight, int64_t parts, int64_t kernel_h, int64_t kernel_w, void* packed,
                     ThreadPool& pool) {
  const int64_t co = weight.dim(0), ci = weight.dim(1), taps = kernel_h * kernel_w;
  const int64_t block = packed_conv_bytes(co, ci, kernel_h, kernel_w), size = dtype_size(weight.dtype);
  pool.run(parts, [&](int64_t part, int) {
    std::vector<float> row(static_cast<size_t>(ci * parts * taps)),
        gathered(static_cast<size_t>(co * ci * taps));
    for (int64_t o = 0; o < co; ++o) {
      widen(static_cast<const char*>(weight.data) + o * ci * parts * taps * size, weight.dtype,
            ci * parts * taps, row.data());
      for (int64_t c = 0; c < ci; ++c)
        std::copy_n(row.data() + (c * parts + part) * taps, taps, gathered.data() + (o * ci + c) * taps);
    }
    pack_conv(co, ci, kernel_h, kernel_w, gathered.data(), static_cast<char*>(packed) + part * block);
  });
}

void unpack_conv_parts(const void* packed, int64_t parts, int64_t co, int64_t ci, int64_t kernel_h,
                       int64_t kernel_w, float* plain) {
  const int64_t block = packed_conv_bytes(co, ci, kernel_h, kernel_w);
  for (int64_t part = 0; part < parts; ++part)
    unpack_conv(co, ci, kernel_h, kernel_w, static_cast<const char*>(packed) + part * block,
                plain + part * kernel_h * kernel_w * ci * co);
}

}  // namespace tachy::cpu
