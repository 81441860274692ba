// Lesson 2: transposing a matrix, y[j, i] = x[i, j], or: what shared memory is for.
//
// A transpose only moves bytes, but either its reads or its writes jump by a whole row from lane to lane:
// every value then costs a request for 32 bytes of which 4 are used. So a block takes a tile of 64 x 64
// through shared memory and transposes it there: rows in, rows out, 16 bytes per lane both ways.
//
// Shared memory has 32 banks of 4 bytes; lanes that need different words of one bank wait for each other. A
// column of the tile lies in a single bank (64 floats in a row: the bank repeats with every row). The remedy
// costs nothing: the 16-byte piece `c` of row `r` is kept at place c ^ (r / 4), a permutation within the row.
//
//   in    a quarter of a warp stores 8 pieces of one row              8 places of one row: no conflict
//   out   lane (q = lane % 8, u = lane / 8) gathers rows 4q … 4q + 3 of column j = 4c + u, one word each:
//         at place c ^ q, word u: 8 places x 4 words = all 32 banks            no conflict
#include "gauge.cuh"

using namespace tachy;

constexpr int kTile = 64, kThreads = 256;

__global__ void __launch_bounds__(kThreads) transpose(const float* x, float* y, int rows, int columns) {
  __shared__ float4 tile[kTile][kTile / 4];
  const int row0 = blockIdx.y * kTile, column0 = blockIdx.x * kTile;
  const int piece = threadIdx.x % 16, row = threadIdx.x / 16;
  const bool whole = row0 + kTile <= rows && column0 + kTile <= columns && rows % 4 == 0 && columns % 4 == 0;
  if (whole) {
    device::Pack<float, 4> v[4];  // all four loads are issued before the first is stored
#pragma unroll
    for (int k = 0; k < 4; ++k)
      v[k] = device::load<float, 4>(x + static_cast<int64_t>(row0 + row + 16 * k) * columns + column0 +
                                    piece * 4);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int r = row + 16 * k;
      tile[r][piece ^ (r / 4)] = make_float4(v[k].get(0), v[k].get(1), v[k].get(2), v[k].get(3));
    }
  } else {
    for (int k = 0; k < 4; ++k) {
      const int r = row + 16 * k;
      float v[4];
      for (int i = 0; i < 4; ++i) {
        const int c = column0 + piece * 4 + i;
        v[i] = row0 + r < rows && c < columns ? x[static_cast<int64_t>(row0 + r) * columns + c] : 0.0f;
      }
      tile[r][piece ^ (r / 4)] = make_float4(v[0], v[1], v[2], v[3]);
    }
  }
  __syncthreads();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, u = lane / 8;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int c = warp * 2 + k / 2, q = lane % 8 + k % 2 * 8;  // column 4c + u, rows 4q … 4q + 3
    const int j = column0 + 4 * c + u, i = row0 + 4 * q;
    float v[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) v[e] = reinterpret_cast<const float*>(&tile[4 * q + e][c ^ q])[u];
    if (whole)
      device::store(y + static_cast<int64_t>(j) * rows + i, v);
    else
      for (int e = 0; e < 4; ++e)
        if (j < columns && i + e < rows) y[static_cast<int64_t>(j) * rows + i + e] = v[e];
  }
}

// Without the tile: reads are in rows, writes a whole row apart.
__global__ void transpose_plain(const float* x, float* y, int rows, int columns) {
  const int j = blockIdx.x * 32 + threadIdx.x % 32, i = blockIdx.y * 8 + threadIdx.x / 32;
  if (i < rows && j < columns)
    y[static_cast<int64_t>(j) * rows + i] = x[static_cast<int64_t>(i) * columns + j];
}

void launch(const float* x, float* y, int rows, int columns) {
  transpose<<<dim3((columns + kTile - 1) / kTile, (rows + kTile - 1) / kTile), kThreads>>>(x, y, rows,
                                                                                           columns);
}

bool right(const char* what, int rows, int columns) {
  const size_t count = static_cast<size_t>(rows) * columns;
  const std::vector<float> x = gauge::random_values<float>(count, 5);
  const gauge::Array<float> on_x(x), on_y(count);
  launch(on_x.get(), on_y.get(), rows, columns);
  const std::vector<float> y = on_y.host();
  gauge::Error error;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) error.add(y[j * rows + i], x[i * columns + j]);
  return error.within(what, 0, 24);  // values are moved, not computed: equal to the bit
}

int main() {
  constexpr int kRows = 10'240, kColumns = 7'168;
  bool fine = right("10240 x 7168", kRows, kColumns);
  fine &= right("1001 x 333", 1001, 333);
  fine &= right("3 x 130", 3, 130);
  fine &= right("132 x 68", 132, 68);

  constexpr size_t kCount = size_t{kRows} * kColumns;
  const gauge::Array<float> x(gauge::random_values<float>(kCount, 6)), y(kCount);
  const double rate = gauge::copy_rate(), bytes = 8.0 * kCount;
  gauge::report_bytes("without a tile", gauge::median_us([&] {
                        transpose_plain<<<dim3(kColumns / 32, kRows / 8), 256>>>(x.get(), y.get(), kRows,
                                                                                 kColumns);
                      }),
                      bytes, rate);
  gauge::report_bytes("through shared memory",
                      gauge::median_us([&] { launch(x.get(), y.get(), kRows, kColumns); }), bytes, rate);
  return fine ? 0 : 1;
}
