// Measures how fast a weight becomes codes of 8 bits with a scale per row on the host, as during loading.
//
//   lab_round_weights FOLDER [THREADS [ROWS WIDTH]]
//
// Writes matrices of ROWS x WIDTH (13824 x 5120 by default) as files of each dtype into FOLDER, and prints
// the best of three rounds, with the file in the page cache: how many values a core rounds per second, and
// how many GB per second are read from the file and written as codes. For comparison it also reads the file
// alone.
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>

#include "nn/rounded_weight.h"
#include "nn/weight_form.h"
#include "weights/mapped_file.h"

using namespace tachy;

namespace {

// The seconds of all threads of this process together, so that other work on the machine does not count.
double cpu_seconds() {
  timespec at{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
  return static_cast<double>(at.tv_sec) + 1e-9 * static_cast<double>(at.tv_nsec);
}

template <class Body>
double best_of_three(Body&& body) {
  double best = 1e9;
  for (int round = 0; round < 3; ++round) {
    const double start = cpu_seconds();
    body();
    best = std::min(best, cpu_seconds() - start);
  }
  return best;
}

// Values around 0.02, like those of weights.
void write_matrix(const std::filesystem::path& path, DType dtype, int64_t rows, int64_t width) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> some(1 << 20);
  for (float& value : some) value = normal(engine);
  std::ofstream out(path, std::ios::binary);
  const int64_t count = rows * width;
  for (int64_t i = 0; i < count; ++i) {
    const float value = some[static_cast<size_t>(i % 1048573)];
    const auto put = [&](const auto& v) { out.write(reinterpret_cast<const char*>(&v), sizeof v); };
    if (dtype == DType::bf16) put(to_bf16(value));
    if (dtype == DType::f16) put(to_f16(value));
    if (dtype == DType::f32) put(value);
    if (dtype == DType::f8_e4m3) put(to_f8_e4m3(value * 1000));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return fmt::print("lab_round_weights FOLDER [THREADS [ROWS WIDTH]]\n"), 2;
  const std::filesystem::path folder = argv[1];
  const int threads = argc > 2 ? std::atoi(argv[2]) : available_processors();
  const int64_t rows = argc > 4 ? std::atoll(argv[3]) : 13824, width = argc > 4 ? std::atoll(argv[4]) : 5120;
  ThreadPool pool(threads);
  Arena none(0);
  Stream stream{.arena = &none, .pool = &pool};
  const double values = static_cast<double>(rows) * static_cast<double>(width);
  fmt::print("{} x {}, {} threads\n", rows, width, threads);
  for (const DType from : {DType::bf16, DType::f16, DType::f32, DType::f8_e4m3}) {
    const auto path = folder / fmt::format("rows.{}", dtype_name(from));
    write_matrix(path, from, rows, width);
    const MappedFile file(path);
    const Tensor matrix(const_cast<std::byte*>(file.data()), from, {rows, width});
    const Buffer copy(static_cast<size_t>(matrix.bytes()));
    const double read = best_of_three([&] {
      nn::convert_weight(matrix, Tensor(copy.data(), from, {rows, width}), pool);
    });
    fmt::print("{:8} read alone {:5.2f} GB/s\n", dtype_name(from),
               static_cast<double>(matrix.bytes()) / read / 1e9);
    for (const DType to : {DType::f8_e4m3, DType::i8}) {
      const Buffer codes(static_cast<size_t>(rows * width)), scales(static_cast<size_t>(rows) * 4);
      const double seconds = best_of_three([&] {
        nn::ParamStore store({}, stream);
        const nn::RoundedWeight rounded({matrix}, to);
        rounded.fill_codes(Tensor(codes.data(), to, {rows, width}), store);
        rounded.fill_scales(Tensor(scales.data(), DType::f32, {rows, 1}), store);
      });
      fmt::print("{:8} to {:8} and scales {:7.1f} million values, {:5.2f} GB/s\n", dtype_name(from),
                 dtype_name(to), values / seconds / 1e6,
                 (static_cast<double>(matrix.bytes()) + values) / seconds / 1e9);
    }
    const double packed = best_of_three([&] {
      Stream int8 = stream;
      int8.precision.products = Products::int8;
      nn::ParamStore store({}, int8);
      const nn::WeightPart part{matrix};
      nn::make_scaled_weight({&part, 1}, store);
    });
    fmt::print("{:8} to i8, packed for a CPU {:6.1f} million values\n", dtype_name(from),
               values / packed / 1e6);
    std::filesystem::remove(path);
  }
  return 0;
}
