// Linear layers with low-rank adapters are compared with plain loops in float64: in each form of the weight,
// alone and joined, before every epilogue.
#include <gtest/gtest.h>

#include "adapter_case.h"

namespace tachy::nn::test {
namespace {

using ops::Activation;

constexpr double kClose = 2e-5;

double activate(double v, Activation act) {
  if (act == Activation::silu) return v / (1 + std::exp(-v));
  if (act == Activation::gelu_tanh)
    return 0.5 * v * (1 + std::tanh(0.79788456080286535588 * (v + 0.044715 * v * v * v)));
  return v;
}

TEST(AdaptedLinear, AddsLowRankProductsToALayerInEveryForm) {
  Layers layers;
  const LowRank adapters[] = {layers.adapter("a.to_q", "one", 0.5f), layers.adapter("a.to_q", "two", -1.25f)};
  for (const Form form : kForms)
    for (const std::span<const LowRank> used : {std::span(adapters, 1), std::span(adapters, 2)})
      for (const int64_t rows : {1, 7, 300}) {
        ParamStore store({.pack_weights = form == Form::packed}, layers.host.stream);
        const Linear linear = layers.alone("a.to_q", store, form);
        const AdapterSet set(used, store.linears(), "model", store);
        const auto x = HostRun::rows(rows, kIn), y = run(linear, x, layers.host.stream, &set);
        for (int64_t i = 0; i < rows; ++i) {
          const auto want = layers.row_of("a.to_q", x.data() + i * kIn, used);
          for (int64_t j = 0; j < kEach; ++j)
            ASSERT_NEAR(y[static_cast<size_t>(i * kEach + j)], want[static_cast<size_t>(j)], kClose)
                << linear.form() << ", " << used.size() << " adapters, row " << i << ", column " << j;
        }
      }
}

// A layer's own product rounds to 8 bits. If the product reads codes, the adapters' part is computed from
// rounded values as well: x and A, with one scale per row. int8 on a CPU adds the adapters' part unrounded.
TEST(AdaptedLinear, AddsLowRankProductsToALayerInEightBits) {
  for (const Products products : {Products::e4m3, Products::int8})
    for (const bool joined : {false, true})
      for (const Activation act : {Activation::none, Activation::gelu_tanh}) {
        Layers layers;
        layers.host.stream.precision.products = products;
        std::vector<LowRank> adapters = {layers.adapter("a.to_q", "one", 0.5f),
                                         layers.adapter("a.to_q", "two")};
        if (joined && act == Activation::none) adapters.push_back(layers.adapter("a.to_v", "three", -0.5f));
        if (joined && act != Activation::none)  // in all of y, so that they are added before the activation
          for (const char* name : {"a.to_k", "a.to_v"})
            adapters.push_back(layers.adapter(name, "three", -0.5f));
        ParamStore store({}, layers.host.stream);
        store.set_eight_bits([](std::string_view) { return true; });
        const Linear linear = joined ? layers.joined(store) : layers.alone("a.to_q", store, Form::packed);
        EXPECT_STREQ(linear.form(), products == Products::int8 ? "int8" : "fp8");
        const AdapterSet set(adapters, store.linears(), "model", store);
        constexpr int64_t kRows = 7;
        const auto x = HostRun::rows(kRows, kIn), alone = run(linear, x, layers.host.stream, nullptr),
                   both = run(linear, x, layers.host.stream, &set, act);
        const bool codes = products == Products::e4m3;
        for (int64_t i = 0; i < kRows; ++i)
          for (size_t part = 0; part < linear.parts().size(); ++part) {
            const auto added = layers.added(linear.parts()[part].name, x.data() + i * kIn, adapters, codes);
            for (size_t j = 0; j < added.size(); ++j) {
              const size_t at = static_cast<size_t>(i * linear.out()) + part * kEach + j;
              ASSERT_NEAR(both[at], activate(alone[at] + added[j], act), kClose)
                  << linear.form() << " joined " << joined << " act " << static_cast<int>(act);
            }
          }
      }
}

TEST(AdaptedLinear, JoinedLayersTakeAdaptersInTheirOwnColumns) {
  Layers layers;
  const LowRank adapters[] = {layers.adapter("a.to_v", "one", 0.5f), layers.adapter("a.to_k", "three", 2),
                              layers.adapter("a.to_v", "two", -1)};
  for (const bool pack : {true, false})
    for (const int64_t rows : {1, 300}) {
      ParamStore store({.pack_weights = pack}, layers.host.stream);
      const Linear linear = layers.joined(store);
      const AdapterSet set(adapters, store.linears(), "model", store);
      const auto x = HostRun::rows(rows, kIn), y = run(linear, x, layers.host.stream, &set),
                 plain = run(linear, x, layers.host.stream, nullptr);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t part = 0; part < 3; ++part) {
          const auto want = layers.row_of(kParts[part], x.data() + i * kIn, adapters);
          for (int64_t j = 0; j < kEach; ++j) {
            const auto at = static_cast<size_t>((i * 3 + part) * kEach + j);
            ASSERT_NEAR(y[at], want[static_cast<size_t>(j)], kClose) << kParts[part] << " pack " << pack;
            if (part == 0) {
              ASSERT_EQ(y[at], plain[at]) << "to_q has no adapter";
            }
          }
        }
    }
}

// The cases cover every combination of an epilogue; y has other columns beside its own, and the residual may
// be y.
TEST(AdaptedLinear, AddsBeforeTheEpilogue) {
  constexpr int64_t kRows = 7, kStride = kEach + 4;
  Layers layers;
  const LowRank adapters[] = {layers.adapter("a.to_q", "one", 3)};
  ParamStore store({.pack_weights = true}, layers.host.stream);
  const Linear linear = layers.alone("a.to_q", store, Form::packed);
  const AdapterSet set(adapters, store.linears(), "model", store);
  Stream stream = layers.host.stream;
  stream.adapters = &set;
  auto x = HostRun::rows(kRows, kIn), factors = HostRun::rows(kRows, kEach, 2),
       gates = HostRun::rows(2, kEach, 3), given = HostRun::rows(kRows, kStride, 4);
  std::vector<int32_t> gate_rows = {0, 1, 1, 0, 0, 1, 0};
  const auto check_epilogue = [&](Activation act, bool multiply, bool residual, bool gate, bool aside) {
    const int64_t stride = aside ? kStride : kEach;
    std::vector<float> y(given.begin(), given.begin() + kRows * stride);
    const std::vector<float> before = y;
    const Tensor out = tensor_of(y, stride).slice(1, 0, kEach);
    Epilogue epilogue{.act = act};
    if (multiply) epilogue.multiply = tensor_of(factors, kEach);
    if (residual) epilogue.residual = out;
    if (gate)
      epilogue.gate = tensor_of(gates, kEach), epilogue.row = Tensor(gate_rows.data(), DType::i32, {kRows});
    linear(tensor_of(x, kIn), out, stream, epilogue);
    for (int64_t i = 0; i < kRows; ++i) {
      const auto sums = layers.row_of("a.to_q", x.data() + i * kIn, adapters);
      for (int64_t j = 0; j < stride; ++j) {
        const auto at = static_cast<size_t>(i * stride + j);
        double want = before[at];
        if (j < kEach) {
          double t = activate(sums[static_cast<size_t>(j)], act);
          if (multiply) t *= factors[static_cast<size_t>(i * kEach + j)];
          if (gate) t *= gates[static_cast<size_t>(gate_rows[static_cast<size_t>(i)] * kEach + j)];
          want = t + (residual ? before[at] : 0);
        }
        ASSERT_NEAR(y[at], want, 5 * kClose)
            << "act " << static_cast<int>(act) << " multiply " << multiply << " residual " << residual
            << " gate " << gate << " aside " << aside << ", row " << i << ", column " << j;
      }
    }
  };
  for (const Activation act : {Activation::none, Activation::silu, Activation::gelu_tanh})
    for (const bool multiply : {false, true})
      for (const int end : {0, 1, 2})
        for (const bool aside : {false, true}) check_epilogue(act, multiply, end > 0, end > 1, aside);
}

TEST(AdaptedLinear, BitsDoNotDependOnThreads) {
  Layers layers;
  const LowRank adapters[] = {layers.adapter("a.to_k", "two"), layers.adapter("a.to_v", "three")};
  ParamStore store({.pack_weights = true}, layers.host.stream);
  const Linear linear = layers.joined(store);
  const AdapterSet set(adapters, store.linears(), "model", store);
  const auto x = HostRun::rows(300, kIn), y = run(linear, x, layers.host.stream, &set);
  ThreadPool other(3);
  Stream stream = layers.host.stream;
  stream.pool = &other;
  EXPECT_EQ(run(linear, x, stream, &set), y);
}

}  // namespace
}  // namespace tachy::nn::test
