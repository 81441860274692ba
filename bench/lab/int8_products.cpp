// Measures what a linear layer costs in int8 (ops/scaled_gemm) compared with float32 and bf16 (ops/gemm),
// with weights packed, with and without rounding x to codes. It takes the processor time of one thread, since
// other work runs on this machine, too. Each round runs all ways once; the results are medians of the times,
// and of the ratios within a round. The first way is the upper limit of int8: products in registers alone
// (cpu/roofline.h). Its rate is measured in each round, because the speed of a shared core varies by a factor
// of two.
//   cmake --build build --target lab_int8_products && build/bench/lab/lab_int8_products [rounds [ways whose name holds this]]
#include <fmt/core.h>

#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#include "cpu/panels.h"
#include "cpu/roofline.h"
#include "ops/gemm/gemm.h"
#include "ops/quantize/quantize.h"
#include "ops/scaled_gemm/scaled_gemm_impl.h"
#include "thread_time.h"

using namespace tachy;

namespace {

struct Way {
  std::string name;
  std::function<void(Stream&)> run;
  std::string yardstick;  // if not empty, the name of the yardstick with which the others are compared
  std::vector<double> seconds{};
};

// A linear layer [m, k] → [m, n] in all the ways that are compared. Its tensors live as long as the object.
class Layer {
 public:
  Layer(int64_t m, int64_t n, int64_t k, ops::Activation act) : m_(m), n_(n), k_(k) {
    if (*cpu::int8_products())
      ways_.push_back({fmt::format("{} in registers", cpu::int8_products()),
                       [this](Stream& s) {
                         if (s.measuring()) return;
                         for (double done = 0; done < operations();) done += cpu::run_int8_products(2000);
                       },
                       "ceiling"});
    const Tensor x = random({m, k}), weight = random({n, k}), bias = random({n}), y = random({m, n});
    const Tensor q = make(DType::i8, {m, k}), x_scale = make(DType::f32, {m, 1}),
                 codes = make(DType::i8, {n, k}), scale = make(DType::f32, {n, 1}),
                 int8 = make(DType::u8, {ops::packed_scaled_gemm_bytes(n, k)});
    const ops::QuantizeArgs round{.x = x, .block = {1, 0}, .scale = x_scale, .q = q};
    ops::ScaledGemmArgs scaled{.x = q,
                               .x_scale = x_scale.view({m}),
                               .weight = codes,
                               .packed = int8,
                               .weight_scale = scale.view({n})};
    scaled.bias = bias, scaled.act = act, scaled.y = y;
    prepare_.push_back([=](Stream& s) {
      ops::quantize(round, s);
      ops::quantize({.x = weight, .block = {1, 0}, .scale = scale, .q = codes}, s);
      ops::pack_scaled_gemm_weight(codes, int8, s);
    });
    for (const Compute compute : {Compute::f32, Compute::bf16}) {
      if (cpu::usable(compute) != compute) continue;
      ops::GemmArgs args{.x = x, .weight = weight, .bias = bias, .act = act, .y = y};
      args.packed = make(DType::u8, {ops::packed_gemm_bytes(n, k, compute)});
      prepare_.push_back([=](Stream& s) {
        s.precision.compute = compute;
        ops::pack_gemm_weight(args.weight, args.packed, s);
      });
      ways_.push_back({cpu::panels_name(compute),
                       [=](Stream& s) { s.precision.compute = compute, ops::gemm(args, s); },
                       compute == Compute::f32 ? "f32" : "bf16"});
    }
    for (const auto& impl : ops::scaled_gemm_table()) {
      const std::string name = impl.name;
      if (impl.device != DeviceType::cpu || name == "ref" || (impl.why_not && impl.why_not(scaled, {})))
        continue;
      ways_.push_back({name, [=](Stream& s) { impl.run(scaled, s); }, ""});
      ways_.push_back(
          {name + " and rounding x", [=](Stream& s) { ops::quantize(round, s), impl.run(scaled, s); }, ""});
    }
  }

  void measure(int rounds, const std::string& only, ThreadPool& pool) {
    std::erase_if(ways_, [&](const Way& way) {
      return way.yardstick != "ceiling" && way.name.find(only) == std::string::npos;
    });
    Arena measuring;
    Stream dry{.arena = &measuring, .pool = &pool};
    for (Way& way : ways_) way.run(dry);
    Arena arena(measuring.peak());
    Stream stream{.arena = &arena, .pool = &pool};
    for (const auto& prepare : prepare_) prepare(stream);
    for (int round = -1; round < rounds; ++round)
      for (Way& way : ways_) {
        const double begin = thread_seconds();
        way.run(stream);
        if (round >= 0) way.seconds.push_back(thread_seconds() - begin);
      }
    for (const Way& way : ways_) {
      const double each = median(way.seconds);
      fmt::print("{:>5} x {:>5} x {:>5}  {:<22} {:8.2f} ms  {:7.1f} G/s", m_, n_, k_, way.name, each * 1e3,
                 1e-9 * operations() / each);
      for (const Way& other : ways_)
        if (!other.yardstick.empty()) fmt::print("  {:5.2f} x {}", faster(way, other), other.yardstick);
      fmt::print("\n");
    }
  }

 private:
  double operations() const { return 2.0 * static_cast<double>(m_ * n_ * k_); }
  // The median, over the rounds, of how many times as fast `way` was as `other`.
  static double faster(const Way& way, const Way& other) {
    std::vector<double> ratios;
    for (size_t i = 0; i < way.seconds.size(); ++i) ratios.push_back(other.seconds[i] / way.seconds[i]);
    return median(ratios);
  }
  Tensor make(DType dtype, std::initializer_list<int64_t> dims) {
    Tensor t(nullptr, dtype, dims);
    buffers_.emplace_back(static_cast<size_t>(t.bytes()));
    t.data = buffers_.back().data();
    return t;
  }
  Tensor random(std::initializer_list<int64_t> dims) {
    const Tensor t = make(DType::f32, dims);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < t.numel(); ++i) t.as<float>()[i] = normal(engine_);
    return t;
  }

  int64_t m_, n_, k_;
  std::mt19937 engine_{7};
  std::vector<Buffer> buffers_;
  std::vector<std::function<void(Stream&)>> prepare_;
  std::vector<Way> ways_;
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  const std::string only = argc > 2 ? argv[2] : "";
  ThreadPool pool(1);
  // Layers of Wan 1.3B at one frame of 480p, and of the shipped model at 576 tokens, with guidance.
  Layer(1560, 1536, 1536, ops::Activation::none).measure(rounds, only, pool);
  Layer(1560, 8960, 1536, ops::Activation::gelu_tanh).measure(rounds, only, pool);
  Layer(1560, 1536, 8960, ops::Activation::none).measure(rounds, only, pool);
  Layer(1152, 384, 384, ops::Activation::none).measure(rounds, only, pool);
  Layer(1152, 1024, 384, ops::Activation::gelu_tanh).measure(rounds, only, pool);
}
