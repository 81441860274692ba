// Tests the registry of a store's linear layers: they are found by name, whole or as a part of a joined
// product.
#include "nn/linear_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nn_case.h"

namespace tachy::nn {
namespace {

using test::HostRun;
using test::RandomFile;

constexpr int64_t kListedIn = 24, kListedOut = 20;

struct Model {
  RandomFile file;
  HostRun host;
  ParamStore store{{.pack_weights = true}, host.stream};
  std::shared_ptr<const LinearRegistry> linears;

  Model() {
    for (const char* name : {"blocks.0.attn1.to_q", "blocks.0.attn1.to_k", "blocks.0.ffn.up", "proj_out"})
      file.add_linear(name, kListedIn, kListedOut);
    const Scope scope = file.scope(), attention = scope.sub("blocks").sub(0).sub("attn1");
    const Scope parts[] = {attention.sub("to_q"), attention.sub("to_k")};
    Linear::joined(parts, store, kListedIn, kListedOut);
    Linear(scope.sub("blocks.0.ffn.up"), store, kListedIn, kListedOut);
    Linear(scope.sub("proj_out"), store.beside(), kListedIn, kListedOut);
    linears = store.take_linears();
  }
};

TEST(LinearRegistry, IteratesInTheOrderInWhichTheModelWasBuilt) {
  const Model model;
  std::vector<std::string> names;
  for (const auto& entry : *model.linears) names.push_back(entry.name());
  EXPECT_EQ(names, (std::vector<std::string>{"blocks.0.attn1.to_q", "blocks.0.attn1.to_k", "blocks.0.ffn.up",
                                             "proj_out"}));
  EXPECT_EQ(model.linears->size(), 4u);
}

// The columns that a part's entry names equal the result of the layer with that name alone.
TEST(LinearRegistry, APartOfAJoinedProductIsARangeOfItsColumns) {
  Model model;
  const LinearRegistry::Entry& entry = model.linears->at("blocks.0.attn1.to_k", "model");
  EXPECT_EQ(entry.part().first, kListedOut);
  EXPECT_EQ(entry.part().rows, kListedOut);
  EXPECT_EQ(entry.linear.out(), 2 * kListedOut);
  ParamStore other({.pack_weights = false}, model.host.stream);
  const Linear alone(model.file.scope().sub("blocks.0.attn1.to_k"), other, kListedIn, kListedOut);
  auto x = HostRun::rows(5, kListedIn);
  std::vector<float> joined(5 * 2 * kListedOut), one(5 * kListedOut);
  const Tensor in(x.data(), DType::f32, {5, kListedIn}), all(joined.data(), DType::f32, {5, 2 * kListedOut}),
      want(one.data(), DType::f32, {5, kListedOut});
  entry.linear(in, all, model.host.stream);
  alone(in, want, model.host.stream);
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t j = 0; j < kListedOut; ++j)
      EXPECT_EQ(joined[static_cast<size_t>(i * 2 * kListedOut + entry.part().first + j)],
                one[static_cast<size_t>(i * kListedOut + j)]);
}

TEST(LinearRegistry, AnUnknownNameIsAnsweredWithNearOnes) {
  const Model model;
  EXPECT_EQ(model.linears->find("blocks.0.attn1.to_v"), nullptr);
  try {
    model.linears->at("blocks.0.atn1.to_k", "transformer");
    FAIL() << "found";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::not_found);
    EXPECT_THAT(e.message(),
                testing::HasSubstr("transformer: expected the name of one of its 4 linear layers"));
    EXPECT_THAT(e.message(),
                testing::HasSubstr("got 'blocks.0.atn1.to_k'; near: blocks.0.attn1.to_k, blocks."));
  }
}

TEST(LinearRegistry, TakenLayersAreNoLongerTheStores) {
  Model model;
  EXPECT_EQ(model.store.linears().size(), 0u);
  Linear(model.file.scope().sub("proj_out"), model.store, kListedIn, kListedOut);
  EXPECT_EQ(model.store.linears().size(), 1u);
  EXPECT_EQ(model.linears->size(), 4u);
}

TEST(LinearRegistry, TwoLayersOfOneNameAreRefused) {
  Model model;
  Linear(model.file.scope().sub("proj_out"), model.store, kListedIn, kListedOut);
  EXPECT_THROW(Linear(model.file.scope().sub("proj_out"), model.store, kListedIn, kListedOut), Error);
}

}  // namespace
}  // namespace tachy::nn
