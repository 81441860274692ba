// Tests the feed-forward: cutting its rows into pieces changes no bit, and the gated form equals its parts
// together.
#include "nn/mlp.h"

#include <gtest/gtest.h>

#include "nn_case.h"
#include "runtime/pace.h"

namespace tachy::nn {
namespace {

using test::HostRun;
using test::RandomFile;

constexpr int64_t kMlpIn = 6, kWide = 10;

struct Layers {
  RandomFile file;
  HostRun host;
  ParamStore store{{.pack_weights = true}, host.stream};
  Mlp mlp;

  explicit Layers(bool gated) {
    file.add_linear("gate", kMlpIn, kWide);
    file.add_linear("up", kMlpIn, kWide);
    file.add_linear("down", kWide, kMlpIn);
    const Scope scope = file.scope();
    if (gated) mlp.gate = Linear(scope.sub("gate"), store, kMlpIn, kWide);
    mlp.up = Linear(scope.sub("up"), store, kMlpIn, kWide);
    mlp.down = Linear(scope.sub("down"), store, kWide, kMlpIn);
  }
  std::vector<float> run(int64_t rows, const Mlp::Options& options) {
    auto x = HostRun::rows(rows, kMlpIn);
    std::vector<float> y(x.size(), NAN);
    const Tensor in(x.data(), DType::f32, {rows, kMlpIn}), out(y.data(), DType::f32, {rows, kMlpIn});
    mlp(in, out, host.stream, options);
    return y;
  }
};

TEST(Mlp, PiecesOfRowsGiveTheBitsOfTheWhole) {
  constexpr int64_t kRows = 20000;
  for (const bool gated : {false, true}) {
    Layers layers(gated);
    ASSERT_LT(runtime::rows_at_a_time(layers.host.stream, kRows, 0), kRows) << "nothing would be cut";
    ASSERT_GE(runtime::rows_at_a_time(layers.host.stream, kRows, kRows), kRows);
    EXPECT_EQ(layers.run(kRows, {}), layers.run(kRows, {.free_rows = kRows})) << "gated " << gated;
  }
}

TEST(Mlp, GatedIsActivatedGateTimesUp) {
  Layers layers(true);
  const int64_t rows = 3;
  auto x = HostRun::rows(rows, kMlpIn);
  auto residual = HostRun::rows(rows, kMlpIn, 2);
  std::vector<float> gate(rows * kWide), up(rows * kWide), want(rows * kMlpIn), y(rows * kMlpIn);
  const auto tensor = [&](std::vector<float>& v, int64_t columns) {
    return Tensor(v.data(), DType::f32, {rows, columns});
  };
  Stream& stream = layers.host.stream;
  layers.mlp.gate(tensor(x, kMlpIn), tensor(gate, kWide), stream);
  layers.mlp.up(tensor(x, kMlpIn), tensor(up, kWide), stream);
  for (size_t i = 0; i < up.size(); ++i) {
    const double g = gate[i];
    up[i] *= static_cast<float>(0.5 * g * (1 + std::tanh(0.7978845608028654 * (g + 0.044715 * g * g * g))));
  }
  layers.mlp.down(tensor(up, kWide), tensor(want, kMlpIn), stream, {.residual = tensor(residual, kMlpIn)});
  layers.mlp(tensor(x, kMlpIn), tensor(y, kMlpIn), stream, {.residual = tensor(residual, kMlpIn)});
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], want[i], 1e-5);
}

}  // namespace
}  // namespace tachy::nn
