// Measures what a float32 linear layer with few rows costs on tiles (gemm:split) and on the float32 units
// (gemm:f32), with weights packed and mapped. It takes the processor time of one thread, since other work
// runs on this machine, too. A round runs all ways once; the results are medians of the times, and of split's
// time divided by f32's within a round.
//   cmake --build build --target lab_few_rows && build/bench/lab/lab_few_rows [rounds] [most rows]
#include <fmt/core.h>

#include <cstdlib>
#include <deque>
#include <random>
#include <vector>

#include "ops/gemm/gemm.h"
#include "ops/impl_table.h"
#include "thread_time.h"

using namespace tachy;

namespace {

class Layer {
 public:
  Layer(int64_t n, int64_t k, DType dtype, bool packed, int rounds)
      : n_(n), k_(k), dtype_(dtype), packed_(packed), rounds_(rounds) {
    weight_ = make(dtype, {n, k});
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < n * k; ++i)
      if (dtype == DType::f32)
        weight_.as<float>()[i] = normal(engine_);
      else
        weight_.as<bf16_t>()[i] = to_bf16(normal(engine_));
    x_ = make(DType::f32, {512, k}), y_ = make(DType::f32, {512, n});
    for (int64_t i = 0; i < 512 * k; ++i) x_.as<float>()[i] = normal(engine_);
  }

  void measure(int64_t m, ThreadPool& pool) {
    ops::GemmArgs args{.x = x_.slice(0, 0, m), .weight = weight_, .y = y_.slice(0, 0, m)};
    Arena arena(size_t{64} << 20);
    Stream stream{.arena = &arena, .pool = &pool};
    if (packed_) {
      if (!pack_.defined()) {
        pack_ = make(DType::u8, {ops::packed_gemm_bytes(n_, k_)});
        ops::pack_gemm_weight(weight_, pack_, stream);
      }
      args.packed = pack_;
    }
    std::vector<double> f32, split, ratios;
    for (int round = -1; round < rounds_; ++round)
      for (const char* impl : {"f32", "split"}) {
        ops::set_forced_impl("gemm", impl);
        const double begin = thread_seconds();
        ops::gemm(args, stream);
        if (round >= 0) (impl[0] == 'f' ? f32 : split).push_back(thread_seconds() - begin);
      }
    for (size_t i = 0; i < f32.size(); ++i) ratios.push_back(split[i] / f32[i]);
    fmt::print("{:>4} x {:>5} x {:>5} {:<4} {:<6}  f32 {:7.2f} ms  split {:7.2f} ms  {:5.2f}\n", m, n_, k_,
               dtype_name(dtype_), packed_ ? "packed" : "mapped", median(f32) * 1e3, median(split) * 1e3,
               median(ratios));
  }

 private:
  Tensor make(DType dtype, std::initializer_list<int64_t> dims) {
    Tensor t(nullptr, dtype, dims);
    t.data = buffers_.emplace_back(static_cast<size_t>(t.bytes())).data();
    return t;
  }

  int64_t n_, k_;
  DType dtype_;
  bool packed_;
  int rounds_;
  std::mt19937 engine_{7};
  std::deque<Buffer> buffers_;
  Tensor weight_, pack_, x_, y_;
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15, most = argc > 2 ? std::atoi(argv[2]) : 384;
  ThreadPool pool(1);
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{1536, 1536}, {8960, 1536}, {384, 384}})
    for (const auto& [dtype, packed] :
         {std::pair{DType::f32, true}, {DType::f32, false}, {DType::bf16, false}}) {
      Layer layer(n, k, dtype, packed, rounds);
      for (const int64_t m : {1, 4, 16, 32, 64, 127, 128, 256, 384})
        if (m <= most) layer.measure(m, pool);
    }
}
