// A linear layer in each form of its weight, alone and joined: the form never changes a bit.
#include "nn/linear.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "nn_case.h"

namespace tachy::nn {
namespace {

using test::HostRun;
using test::RandomFile;

constexpr int64_t kPlainIn = 40;

struct MadePlain {
  std::vector<float> y;
  std::string form;
  size_t bytes = 0;
};

// Computes x · [q, k, v]ᵀ by one joined layer.
MadePlain run_joined(const RandomFile& file, int64_t rows, int64_t each, bool pack,
                     bool definitions = false) {
  HostRun host;
  ParamStore store({.pack_weights = pack}, host.stream);
  const Scope scope = file.scope();
  const Scope parts[] = {scope.sub("a.to_q"), scope.sub("a.to_k"), scope.sub("a.to_v")};
  const Linear joined = Linear::joined(parts, store, kPlainIn, each);
  const auto x = HostRun::rows(rows, kPlainIn);
  MadePlain made{std::vector<float>(static_cast<size_t>(rows * 3 * each), NAN), joined.form(), store.bytes()};
  host.stream.precision.definitions = definitions;
  joined(Tensor(const_cast<float*>(x.data()), DType::f32, {rows, kPlainIn}),
         Tensor(made.y.data(), DType::f32, {rows, 3 * each}), host.stream);
  return made;
}

RandomFile three(int64_t each, DType last = DType::f32) {
  RandomFile file;
  file.add_linear("a.to_q", kPlainIn, each);
  file.add_linear("a.to_k", kPlainIn, each);
  file.add_linear("a.to_v", kPlainIn, each, last);
  return file;
}

// A panel has 48 columns: parts of 96 are whole panels, and parts of 20 and 100 share some.
TEST(Linear, JoinedLayersGiveTheBitsOfEachAloneInEveryForm) {
  for (const int64_t each : {20, 96, 100})
    for (const int64_t rows : {1, 7, 300}) {
      const RandomFile file = three(each);
      const MadePlain packed = run_joined(file, rows, each, true),
                      mapped = run_joined(file, rows, each, false);
      EXPECT_EQ(packed.form, "packed");
      EXPECT_EQ(mapped.form, "mapped");
      EXPECT_EQ(packed.y, mapped.y) << rows << " rows, " << each << " columns a part";
      HostRun host;
      ParamStore store({.pack_weights = true}, host.stream);
      const auto x = HostRun::rows(rows, kPlainIn);
      std::vector<float> y(packed.y.size(), NAN);
      const Tensor all(y.data(), DType::f32, {rows, 3 * each});
      int64_t part = 0;
      for (const char* name : {"a.to_q", "a.to_k", "a.to_v"}) {
        const Linear alone(file.scope().sub(name), store, kPlainIn, each);
        alone(Tensor(const_cast<float*>(x.data()), DType::f32, {rows, kPlainIn}),
              all.slice(1, part * each, (part + 1) * each), host.stream);
        ++part;
      }
      EXPECT_EQ(y, packed.y) << rows << " rows, " << each << " columns a part";
    }
}

// The definition reads weights where they lie in the file; level none runs it.
TEST(Linear, JoinedLayersThatArePackedRunTheirDefinition) {
  const RandomFile file = three(20);
  const MadePlain fast = run_joined(file, 7, 20, true), packed = run_joined(file, 7, 20, true, true),
                  mapped = run_joined(file, 7, 20, false, true);
  EXPECT_EQ(packed.y, mapped.y);
  for (size_t i = 0; i < fast.y.size(); ++i) EXPECT_NEAR(fast.y[i], packed.y[i], 1e-5);
}

TEST(Linear, WeightsThatAreMadeGiveTheBitsOfTheSameWeightsInAFile) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const int64_t rows : {1, 7, 300}) {
      RandomFile file;
      for (const char* name : {"a.to_q", "a.to_k", "a.to_v"}) file.add_linear(name, kPlainIn, 100, dtype);
      const RandomFile made = file.derived();
      const MadePlain mapped = run_joined(file, rows, 100, false),
                      derived = run_joined(made, rows, 100, false),
                      packed = run_joined(file, rows, 100, true),
                      repacked = run_joined(made, rows, 100, true),
                      plain = run_joined(file, rows, 100, true, true),
                      remade = run_joined(made, rows, 100, true, true);
      EXPECT_EQ(derived.form, "derived");
      EXPECT_EQ(repacked.form, "packed");
      EXPECT_EQ(derived.bytes, mapped.bytes);
      EXPECT_EQ(repacked.bytes, packed.bytes);
      EXPECT_EQ(derived.y, mapped.y) << rows << " rows of " << dtype_name(dtype);
      EXPECT_EQ(repacked.y, packed.y) << rows << " rows of " << dtype_name(dtype);
      EXPECT_EQ(remade.y, plain.y) << rows << " rows of " << dtype_name(dtype);
    }
}

// The weight has more values than one slab holds.
TEST(Linear, SlabsOfAMadeWeightGiveTheBitsOfOneProduct) {
  constexpr int64_t kWide = 3000, kOut = 3001;
  RandomFile file;
  file.add_linear("a", kWide, kOut, DType::bf16);
  const RandomFile made = file.derived();
  const auto run = [&](const RandomFile& from) {
    HostRun host;
    ParamStore store({.pack_weights = false}, host.stream);
    const Linear linear(from.scope().sub("a"), store, kWide, kOut);
    const auto x = HostRun::rows(5, kWide), residual = HostRun::rows(5, kOut, 2);
    std::vector<float> y(static_cast<size_t>(5 * kOut), NAN);
    linear(Tensor(const_cast<float*>(x.data()), DType::f32, {5, kWide}),
           Tensor(y.data(), DType::f32, {5, kOut}), host.stream,
           {.residual = Tensor(const_cast<float*>(residual.data()), DType::f32, {5, kOut})});
    return y;
  };
  EXPECT_EQ(run(made), run(file));
}

// A file may keep some layers in another dtype. They are packed separately, since float32 products of few and
// of many rows treat 16-bit values differently.
TEST(Linear, PartsOfTwoDTypesStayApartWithTheSameBits) {
  const RandomFile file = three(20, DType::bf16);
  const MadePlain packed = run_joined(file, 300, 20, true), mapped = run_joined(file, 300, 20, false);
  EXPECT_EQ(packed.y, mapped.y);
  EXPECT_EQ(packed.form, "packed");
}

TEST(Linear, PartsHaveTheNamesAndColumnsOfTheCheckpoint) {
  const RandomFile file = three(20);
  HostRun host;
  ParamStore store({.pack_weights = true}, host.stream);
  const Scope scope = file.scope();
  const Scope scopes[] = {scope.sub("a.to_q"), scope.sub("a.to_k"), scope.sub("a").sub("to_v")};
  const Linear joined = Linear::joined(scopes, store, kPlainIn, 20);
  EXPECT_EQ(joined.in(), kPlainIn);
  EXPECT_EQ(joined.out(), 60);
  ASSERT_EQ(joined.parts().size(), 3u);
  EXPECT_EQ(joined.parts()[0].name, "a.to_q");
  EXPECT_EQ(joined.parts()[2].name, "a.to_v");
  EXPECT_EQ(joined.parts()[2].first, 40);
  EXPECT_EQ(joined.parts()[2].rows, 20);
}

// A product's epilogue reads a bias of its output's dtype, even if activations are narrower than the output.
TEST(Linear, TheBiasHasTheOutputsDType) {
  const RandomFile file = three(20);
  HostRun host;
  host.stream.precision.activation = DType::bf16;
  for (const Products products : {Products::as_activations, Products::e4m3}) {
    host.stream.precision.products = products;
    ParamStore store({.pack_weights = false}, host.stream);
    store.set_eight_bits([](std::string_view) { return true; });
    const Linear linear(file.scope().sub("a.to_k"), store, kPlainIn, 20);
    const auto* values = static_cast<const float*>(file.entries[3].data);
    const Tensor x(nullptr, DType::bf16, {2, kPlainIn});
    const Tensor wide = linear.arguments(x, Tensor(nullptr, DType::f32, {2, 20}), {}).bias,
                 low = linear.arguments(x, Tensor(nullptr, DType::bf16, {2, 20}), {}).bias;
    ASSERT_EQ(wide.dtype, DType::f32);
    ASSERT_EQ(low.dtype, DType::bf16);
    for (int64_t i = 0; i < 20; ++i) {
      EXPECT_EQ(wide.as<float>()[i], values[i]);
      EXPECT_EQ(low.as<bf16_t>()[i].bits, to_bf16(values[i]).bits);
    }
  }
}

// The kernel is [6, 3, 1, 2, 2] in a file that allows only four dimensions.
TEST(Linear, KernelsWhoseDimensionsWereTakenTogether) {
  RandomFile file;
  file.add("a.weight", {6, 3, 1, 2, 2});
  file.add("a.bias", {6});
  const auto made = [](const RandomFile& from) {
    HostRun host;
    ParamStore store({.pack_weights = true}, host.stream);
    const Linear layer = Linear::from_kernel(from.scope().sub("a"), store, {6, 3, 1, 2, 2});
    const auto x = HostRun::rows(5, 12);
    std::vector<float> y(30, NAN);
    layer(Tensor(const_cast<float*>(x.data()), DType::f32, {5, 12}), Tensor(y.data(), DType::f32, {5, 6}),
          host.stream);
    return y;
  };
  const std::vector<float> expected = made(file);
  const std::vector<int64_t> same[] = {{18, 1, 2, 2}, {6, 12}, {6, 3, 4}, {72}, {6, 3, 2, 2, 1}};
  for (const auto& dims : same) {
    file.entries[0].dims = dims;
    EXPECT_EQ(made(file), expected) << shape_string(dims);
    EXPECT_EQ(made(file.derived()), expected) << shape_string(dims);
  }
  const std::vector<int64_t> others[] = {{3, 6, 1, 2, 2}, {12, 6}, {9, 8}, {6, 3, 1, 2}, {6, 4, 3}};
  for (const auto& dims : others) {
    file.entries[0].dims = dims;
    EXPECT_THROW(made(file), Error) << shape_string(dims);
  }
}

// Planning counts exactly the bytes that loading takes.
TEST(Linear, PlannedBytesAreThoseOfTheBuiltLayer) {
  const RandomFile file = three(100);
  for (const bool pack : {true, false}) {
    HostRun host;
    Arena measure;
    Stream dry = host.stream;
    dry.arena = &measure;
    ParamStore planned({.plan_only = true, .pack_weights = pack}, dry);
    const Scope scope = file.scope();
    const Scope scopes[] = {scope.sub("a.to_q"), scope.sub("a.to_k"), scope.sub("a.to_v")};
    Linear::joined(scopes, planned, kPlainIn, 100);
    EXPECT_EQ(planned.bytes(), run_joined(file, 1, 100, pack).bytes);
  }
}

}  // namespace
}  // namespace tachy::nn
