// Lesson 1: vector addition, y = a + b, or: how to keep memory busy.
//
// For a GPU the arithmetic of an addition does not matter: 12 bytes move for one flop. What counts is how
// many bytes are on their way at once. By Little's law that number is bandwidth times latency: at 4 TB/s and
// 700 ns, 2.8 MB over the whole GPU, about 20 KB for each multiprocessor. Three things achieve that:
//
//   neighbours    lane i of a warp reads the value next to lane i - 1's, so a warp's request is whole lines
//   16 bytes      one instruction per thread for four floats: a quarter of the instructions for the same
//                 bytes
//   packs ahead   all loads of a thread are issued before the first result is used
//
// The kernel is a template over both numbers, so that their effect can be seen. The time above the floor
// comes from the start and the end of the grid, and from memory switching between reads and writes.
#include "gauge.cuh"

using namespace tachy;

// N floats in a pack, Packs packs for a thread. Pack j of a block lies a whole block's width after pack j -
// 1: threads that are neighbours read neighbours in each of them.
template <int N, int Packs>
__global__ void __launch_bounds__(256) add(const float* a, const float* b, float* y, size_t count) {
  const size_t first = (static_cast<size_t>(blockIdx.x) * Packs * blockDim.x + threadIdx.x) * N;
  const size_t step = static_cast<size_t>(blockDim.x) * N;
  device::Pack<float, N> u[Packs], v[Packs];
#pragma unroll
  for (int j = 0; j < Packs; ++j) {
    const size_t at = first + j * step;
    if (at + N <= count) u[j] = device::load<float, N>(a + at), v[j] = device::load<float, N>(b + at);
  }
#pragma unroll
  for (int j = 0; j < Packs; ++j) {
    const size_t at = first + j * step;
    if (at + N <= count) {
      float sum[N];
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] = u[j].get(i) + v[j].get(i);
      device::store(y + at, sum);
    } else {  // the last, incomplete pack
      for (size_t i = at; i < count; ++i) y[i] = a[i] + b[i];
    }
  }
}

template <int N, int Packs>
void launch(const float* a, const float* b, float* y, size_t count) {
  constexpr size_t kBlock = 256, kEach = kBlock * N * Packs;
  add<N, Packs><<<static_cast<unsigned>((count + kEach - 1) / kEach), kBlock>>>(a, b, y, count);
}

template <int N, int Packs>
bool right(const char* what, size_t count) {
  const std::vector<float> a = gauge::random_values<float>(count, 1),
                           b = gauge::random_values<float>(count, 2);
  const gauge::Array<float> on_a(a), on_b(b), on_y(count);
  launch<N, Packs>(on_a.get(), on_b.get(), on_y.get(), count);
  const std::vector<float> y = on_y.host();
  gauge::Error error;
  for (size_t i = 0; i < count; ++i) error.add(y[i], static_cast<double>(a[i]) + b[i]);
  return error.within(what, 0.5, 24);  // one addition, rounded once: half a unit in the last place
}

int main() {
  constexpr size_t kCount = size_t{3} << 24;
  bool fine = right<1, 1>("1 float a thread", kCount);
  fine &= right<4, 1>("4 floats a thread", kCount);
  fine &= right<4, 2>("4 floats, 2 packs", kCount);
  fine &= right<4, 2>("a length of 1,000,003", 1'000'003);

  const gauge::Array<float> a(gauge::random_values<float>(kCount, 3)),
      b(gauge::random_values<float>(kCount, 4)), y(kCount);
  const double rate = gauge::copy_rate(), bytes = 12.0 * kCount;
  const auto time = [&](const char* what, auto launch_one) {
    gauge::report_bytes(what, gauge::median_us([&] { launch_one(a.get(), b.get(), y.get(), kCount); }), bytes,
                        rate);
  };
  time("1 float a thread", launch<1, 1>);
  time("4 floats a thread", launch<4, 1>);
  time("4 floats, 2 packs", launch<4, 2>);
  return fine ? 0 : 1;
}
