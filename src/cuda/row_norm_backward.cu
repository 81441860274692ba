#include "cuda/row_norm.h"
#include "cuda/row_norm_backward.h"
#include "device/row_norm_backward_any.cuh"

namespace tachy::cuda {
namespace {

using device::kPack;

struct Plan {
  int width = 0, chunks = 0, threads = 256;  // chunks is 0 if the row is too long for registers
  unsigned blocks = 1;
  int slots() const { return static_cast<int>(blocks) * (threads / width); }
};

// A row that is longer than a warp gets whole warps, so that few chunks leave lanes idle.
template <class T>
Plan plan_for(int64_t packs) {
  Plan plan;
  if (packs <= 32) {
    plan.width = 4, plan.chunks = 1;
    while (plan.width < packs) plan.width *= 2;
  } else {
    if (packs <= device::kMostThreads<T, 1>)
      plan.chunks = 1;
    else if (packs <= 2 * device::kMostThreads<T, 2>)
      plan.chunks = 2;
    else if (sizeof(T) == 4 && packs <= 3 * device::kMostThreads<T, 3>)
      plan.chunks = 3;
    if (!plan.chunks) return plan;
    plan.width = static_cast<int>(((packs + plan.chunks - 1) / plan.chunks + 31) / 32 * 32);
  }
  if (plan.width > 32) plan.threads = plan.width;
  return plan;
}

template <class T, bool Centred, device::Around kAround, class Body>
void with_chunks(int chunks, Body&& body) {
  constexpr int kValues = kPack<T>;
  if (chunks == 1) return body(device::row_norm_backward_kernel<T, kValues, 1, Centred, kAround>);
  if (chunks == 2) return body(device::row_norm_backward_kernel<T, kValues, 2, Centred, kAround>);
  if constexpr (sizeof(T) == 4)
    return body(device::row_norm_backward_kernel<T, kValues, 3, Centred, kAround>);
}

// float32, which is not used for training, has one kernel for everything.
template <class T, bool Centred, class Body>
void with_kernel(int chunks, device::Around around, Body&& body) {
  using device::Around;
  if constexpr (sizeof(T) == 4) {
    with_chunks<T, Centred, Around::any>(chunks, body);
  } else if constexpr (Centred) {
    if (around == Around::modulated) return with_chunks<T, true, Around::modulated>(chunks, body);
    with_chunks<T, true, Around::plain>(chunks, body);
  } else {
    if (around == Around::rope) return with_chunks<T, false, Around::rope>(chunks, body);
    if (around == Around::silu) return with_chunks<T, false, Around::silu>(chunks, body);
    if (around == Around::modulated) return with_chunks<T, false, Around::modulated>(chunks, body);
    with_chunks<T, false, Around::plain>(chunks, body);
  }
}

// There are as many blocks as run at once, so that none waits for another's rows.
template <class T, bool Centred>
void fill(const char* op, Plan& plan, device::Around around, int64_t rows, const Stream& stream) {
  with_kernel<T, Centred>(plan.chunks, around, [&](auto* kernel) {
    int resident = 0;
    check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, plan.threads, 0), op);
    plan.blocks = persistent_grid(stream, blocks_for(rows, plan.threads / plan.width), std::max(1, resident));
  });
}

}  // namespace

void row_norm_backward(const char* op, const RowNormBackward& a, Stream& stream) {
  const bool batched = a.x.rank == 3;
  const int rows_at = batched ? 1 : 0;
  device::RowNormBackwardParams p{a.x.data, a.dy.data, a.dsum.defined() ? a.dsum.data : nullptr, a.dx.data};
  p.x_stride = a.x.strides[rows_at], p.dy_stride = a.dy.strides[rows_at], p.dx_stride = a.dx.strides[rows_at];
  p.dsum_stride = a.dsum.defined() ? a.dsum.strides[rows_at] : 0;
  if (batched && a.x.dims[0] > 1) {
    p.x_batch = a.x.strides[0], p.dy_batch = a.dy.strides[0], p.dx_batch = a.dx.strides[0];
    p.length = static_cast<uint32_t>(a.x.dims[1]);
    require(a.x.dims[0] * a.x.dims[1] < (int64_t{1} << 32), "{}: expected less than 2^32 rows", op);
  }
  p.rows = batched ? a.x.dims[0] * a.x.dims[1] : a.x.dims[0];
  p.c = static_cast<int>(a.x.dims[rows_at + 1]), p.head = std::max(1, p.c / a.heads);
  p.weight = data_of<float>(a.weight), p.bias = data_of<float>(a.bias), p.scale = data_of<float>(a.scale);
  p.scale_stride = stride_of(a.scale), p.row = data_of<int32_t>(a.row);
  p.tables = a.scale.defined() ? static_cast<int>(a.scale.dims[0]) : 1;
  if (p.tables == 1) p.row = nullptr;
  p.cos = data_of<float>(a.cos), p.sin = data_of<float>(a.sin);
  p.cos_stride = stride_of(a.cos), p.sin_stride = stride_of(a.sin);
  p.eps = a.eps, p.channel = a.channel, p.silu = a.silu;
  p.dweight = data_of<float>(a.dweight), p.dbias = data_of<float>(a.dbias);
  p.dscale = data_of<float>(a.dscale), p.dshift = data_of<float>(a.dshift);
  p.dscale_stride = stride_of(a.dscale), p.dshift_stride = stride_of(a.dshift);
  p.with_q = p.dbias || p.dscale || p.dshift;
  p.streaming = streams(stream, p.rows * p.c * dtype_size(a.x.dtype));
  if (p.c == 0) return;
  const bool sums = p.dweight || p.dbias || p.dscale || p.dshift;

  using device::Around;
  const Around around = batched   ? Around::rope
                        : a.silu  ? Around::silu
                        : p.scale ? Around::modulated
                                  : Around::plain;
  const auto typed = [&]<class T, bool Centred>() {
    constexpr int kValues = kPack<T>;
    // The scratch depends only on the shape, not on alignment, which a measure run does not know.
    Plan plan = p.c % kValues == 0 ? plan_for<T>(p.c / kValues) : Plan{};
    if (plan.chunks) fill<T, Centred>(op, plan, around, p.rows, stream);
    // Sums are made in the rows' own pass, unless that would take too many of them, or does not make the ones
    // that are needed.
    bool in_rows =
        plan.chunks && (p.tables == 1 || int64_t{plan.slots()} * p.tables <= 4096) && (Centred || !p.with_q);
    // For sums down the columns there are enough blocks to fill the GPU, with at least 16 rows each.
    const int64_t walks = int64_t{stream.gpu->info().multiprocessors} * 16 / blocks_for(p.c, 128) / p.tables;
    const auto splits =
        static_cast<int>(std::clamp<int64_t>(std::min<int64_t>(p.rows / 16, walks), 1, 65535));
    const int64_t slots = std::max(in_rows ? plan.slots() : 0, splits);
    const ArenaScope scope(*stream.arena);
    if (sums) {
      p.stats = static_cast<float2*>(stream.arena->bytes(static_cast<size_t>(p.rows) * sizeof(float2)));
      p.partial = static_cast<float*>(
          stream.arena->bytes(static_cast<size_t>(slots * p.tables * 2 * p.c) * sizeof(float)));
    }
    if (stream.measuring()) return;
    const bool fits = plan.chunks &&
                      fits_packs(kValues, {&a.x, &a.dy, &a.dx, &a.dsum, &a.weight, &a.scale}) &&
                      (!p.cos || (p.head % kValues == 0 && fits_packs(kValues / 2, {&a.cos, &a.sin})));
    in_rows = in_rows && fits;
    p.slots = in_rows ? plan.slots() : splits;
    device::RowNormBackwardParams rows = p;
    if (in_rows)
      rows.stats = nullptr;
    else
      rows.partial = nullptr;
    if (rows.partial && p.row)
      check_cuda(
          cudaMemsetAsync(p.partial, 0, sizeof(float) * 2 * static_cast<size_t>(p.slots * p.tables) * p.c,
                          stream_of(stream)),
          op);
    if (fits)
      with_kernel<T, Centred>(plan.chunks, around, [&](auto* kernel) {
        launch(op, kernel, {plan.blocks, static_cast<unsigned>(plan.threads)}, stream, rows, plan.width);
      });
    else
      launch(op, device::row_norm_backward_any_kernel<T, Centred>, {persistent_grid(stream, p.rows, 16), 256},
             stream, rows);
    if (!sums) return;
    if (!in_rows)
      launch(op, device::column_sums_kernel<T>,
             {dim3(blocks_for(p.c, 128), static_cast<unsigned>(splits),
                   static_cast<unsigned>(std::min(p.tables, 65535))),
              128},
             stream, p);
    launch(op, device::finish_sums_kernel, {blocks_for(p.c, 32), dim3(32, 32)}, stream, p, p.slots);
  };
  dispatch_float(op, a.x.dtype, [&]<class T>() {
    a.centred ? typed.template operator()<T, true>() : typed.template operator()<T, false>();
  });
}

}  // namespace tachy::cuda
