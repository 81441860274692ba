// The adapters' backward pass on a GPU. u = x · Aᵀ and v = dy · B come first, in float32 and without scales.
// dx is the second half of the forward pass applied to v; dA and dB are sums over the rows
// (lora_weights.cuh).
//
// `sm80` uses mma.sync, if everything is aligned to 16 bytes and ranks are multiples of 8; `cuda_plain` uses
// FMA.
#include "ops/lora/lora_weights.cuh"

namespace tachy::ops {
namespace {

using namespace lora_gpu;

Tensor turned(const Tensor& t) { return t.transpose(1, 2); }

// The launches of one kind of kernel.
struct Tensors80 {
  static constexpr int kDown = kDownRows, kUp = kUpRows, kColumns = kUpColumns, kSum = kSumColumns;
  template <class T>
  static void down(const Params& p, bool is_turned, const Stream& stream) {
    cuda::launch("lora_backward", is_turned ? lora_down_sm80<T, true> : lora_down_sm80<T, false>,
                 {down_grid(p, kDown), 256, kDownShared}, stream, p);
  }
  template <class T>
  static void up(const Params& p, const Stream& stream) {
    const bool whole = reinterpret_cast<uintptr_t>(p.y) % 16 == 0 && (p.rows == 1 || p.y_stride % 8 == 0);
    cuda::launch("lora_backward", lora_up_sm80<T, true>, {up_grid(p, kUp), 256, kUpShared}, stream, p, true,
                 whole);
  }
  template <class T>
  static void sum(const Sums& p, dim3 grid, const Stream& stream) {
    cuda::launch("lora_backward", lora_weights_sm80<T>, {grid, 256, kSumShared}, stream, p);
  }
};
struct Plain {
  static constexpr int kDown = kPlainTile, kUp = kPlainTile, kColumns = kPlainTile, kSum = kPlainTile;
  template <class T>
  static void down(const Params& p, bool, const Stream& stream) {
    cuda::launch("lora_backward", lora_down_plain<T>, {down_grid(p, kDown), 256}, stream, p);
  }
  template <class T>
  static void up(const Params& p, const Stream& stream) {
    cuda::launch("lora_backward", lora_up_plain<T>, {up_grid(p, kUp), 256}, stream, p);
  }
  template <class T>
  static void sum(const Sums& p, dim3 grid, const Stream& stream) {
    cuda::launch("lora_backward", lora_weights_plain<T>, {grid, 256}, stream, p);
  }
};

// Divides the rows for gradients of `columns` columns, so that the GPU is full, with at least 256 rows in
// each share.
Sums share_out(const Params& low, const Tensor& values, int tile, const Stream& stream) {
  Sums s{.low = low, .values = values.data, .values_stride = values.strides[0]};
  s.columns = static_cast<int>(values.dims[1]), s.column_blocks = (s.columns + tile - 1) / tile;
  if (low.rows == 0) return s;
  const int64_t blocks = int64_t{s.column_blocks} * low.chunks;
  const int64_t wanted = int64_t{stream.gpu->info().multiprocessors} * 3;
  const int64_t shares =
      std::clamp<int64_t>(wanted / blocks, 1, std::clamp<int64_t>(low.rows / 256, 1, 1024));
  s.share_rows = (low.rows + shares * kSumRows - 1) / (shares * kSumRows) * kSumRows;
  s.shares = static_cast<int>((low.rows + s.share_rows - 1) / s.share_rows);
  return s;
}

template <class Kernels, class T>
class Backward {
 public:
  Backward(const LoraBackwardArgs& a, Stream& stream) : a_(a), stream_(stream) {
    const LoraArgs forward{.x = a.x, .a = a.a, .b = a.b, .index = a.index, .y = a.dy};
    const LoraArgs back{
        .x = a.dy, .a = turned(a.b), .b = turned(a.a), .index = a.index, .y = a.dx.defined() ? a.dx : a.x};
    u_ = make_params(forward, stream, Kernels::kDown, Kernels::kUp, Kernels::kColumns);
    v_ = make_params(back, stream, Kernels::kDown, Kernels::kUp, Kernels::kColumns);
    needs_u_ = a.db.defined() || a.dscales.defined();
    needs_v_ = a.dx.defined() || a.da.defined() || a.dscales.defined();
  }

  void run() {
    const ArenaScope scope(*stream_.arena);
    if (needs_u_) u_.low = take_low(u_, *stream_.arena);
    if (needs_v_) v_.low = take_low(v_, *stream_.arena);
    const bool rows = a_.x.dims[0] > 0 && !stream_.measuring();  // without rows, sums are zeros
    if (rows) {
      if (needs_u_) Kernels::template down<T>(u_, false, stream_);
      if (needs_v_) Kernels::template down<T>(v_, true, stream_);
    }
    if (a_.dscales.defined()) scales();
    u_.low_scales = v_.low_scales = cuda::data_of<float>(a_.scales);
    if (a_.dx.defined() && rows) Kernels::template up<T>(v_, stream_);
    if (a_.da.defined()) weights(v_, a_.x, a_.da, a_.da.strides[1], a_.da.strides[2]);
    if (a_.db.defined()) weights(u_, a_.dy, a_.db, a_.db.strides[2], a_.db.strides[1]);
  }

 private:
  void scales() {
    constexpr int kParts = 64;
    const ArenaScope scope(*stream_.arena);
    auto* parts =
        static_cast<float*>(stream_.arena->bytes(sizeof(float) * kParts * static_cast<size_t>(u_.adapters)));
    if (stream_.measuring()) return;
    cuda::launch("lora_backward", lora_scales_kernel, {dim3(kParts, static_cast<unsigned>(u_.adapters)), 256},
                 stream_, u_, v_, parts);
    cuda::launch("lora_backward", lora_scales_finish, {cuda::blocks_for(u_.adapters, 128), 128}, stream_,
                 parts, kParts, u_.adapters, cuda::data_of<float>(a_.dscales));
  }

  // row and inner are the strides of the gradient along low's columns and along those of values.
  void weights(const Params& low, const Tensor& values, const Tensor& g, int64_t row, int64_t inner) {
    Sums s = share_out(low, values, Kernels::kSum, stream_);
    const int64_t rows = int64_t{low.adapters} * low.rank;
    const ArenaScope scope(*stream_.arena);
    s.partial = static_cast<float*>(stream_.arena->bytes(sizeof(float) * static_cast<size_t>(s.shares) *
                                                         static_cast<size_t>(rows * s.columns)));
    if (stream_.measuring()) return;
    if (s.shares > 0)
      Kernels::template sum<T>(s, dim3(grid_x(s.column_blocks, low.chunks), static_cast<unsigned>(s.shares)),
                               stream_);
    cuda::launch(
        "lora_backward", lora_weights_finish<T>,
        {dim3(cuda::blocks_for(s.columns, 256), static_cast<unsigned>(std::min<int64_t>(rows, 65535))), 256},
        stream_, s, cuda::data_of<T>(g), g.strides[0], row, inner);
  }

  const LoraBackwardArgs& a_;
  Stream& stream_;
  Params u_, v_;
  bool needs_u_, needs_v_;
};

}  // namespace

std::optional<Refusal> lora_backward_why_not_sm80(const LoraBackwardArgs& a, const Stream& stream) {
  if (auto no = cuda::why_no_tensor_cores(stream, a.x.dtype, kDownShared)) return no;
  if (!cuda::fits_packs(8, {&a.x, &a.dy, &a.a, &a.b}))
    return Refusal::arguments("x, dy, A and B are not aligned to 16 bytes, or ranks are no multiples of 8");
  return std::nullopt;
}

void lora_backward_sm80(const LoraBackwardArgs& a, Stream& stream) {
  if (a.x.dtype == DType::bf16)
    Backward<Tensors80, __nv_bfloat16>(a, stream).run();
  else
    Backward<Tensors80, __half>(a, stream).run();
}

void lora_backward_plain(const LoraBackwardArgs& a, Stream& stream) {
  cuda::dispatch_float("lora_backward", a.x.dtype, [&]<class T>() { Backward<Plain, T>(a, stream).run(); });
}

}  // namespace tachy::ops
