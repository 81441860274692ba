// Tests a set of adapters: layers without adapters keep their bits, memory is as planned, and adapters that
// do not fit are refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapter_case.h"

namespace tachy::nn::test {
namespace {

using ops::Activation;
using testing::HasSubstr;

TEST(AdapterSet, WhatHasNoneKeepsItsBits) {
  Layers layers;
  const LowRank adapters[] = {layers.adapter("a.to_q", "one")};
  for (const Form form : kForms) {
    ParamStore store({.pack_weights = form == Form::packed}, layers.host.stream);
    const Linear q = layers.alone("a.to_q", store, form), k = layers.alone("a.to_k", store, form);
    const auto x = HostRun::rows(300, kIn), plain_q = run(q, x, layers.host.stream, nullptr),
               plain_k = run(k, x, layers.host.stream, nullptr);
    const AdapterSet empty({}, store.linears(), "model", store),
        set(adapters, store.linears(), "model", store);
    EXPECT_EQ(run(q, x, layers.host.stream, &empty), plain_q);
    EXPECT_EQ(run(k, x, layers.host.stream, &set), plain_k) << "another layer's adapter";
    EXPECT_NE(run(q, x, layers.host.stream, &set), plain_q);
    EXPECT_EQ(run(q, x, layers.host.stream, nullptr), plain_q) << "a stream without, afterwards";
  }
}

// A measure run counts exactly the memory that the set and the products take, in scratch and in the store.
TEST(AdapterSet, TakesTheMemoryThatWasPlanned) {
  Layers layers;
  const LowRank adapters[] = {layers.adapter("a.to_q", "one"), layers.adapter("a.to_q", "two"),
                              layers.adapter("a.to_v", "three")};
  auto x = HostRun::rows(300, kIn);
  std::vector<float> y(300 * 3 * kEach), residual = y;
  const auto both = [&](Stream& stream, bool plan_only, bool adapted) {
    ParamStore store({.plan_only = plan_only}, stream);
    const Linear linear = layers.joined(store);
    const size_t before = store.bytes();
    const AdapterSet set(std::span(adapters, adapted ? 3 : 0), store.linears(), "model", store);
    Stream own = stream;
    own.adapters = &set;
    linear(tensor_of(x, kIn), tensor_of(y, 3 * kEach), own);
    linear(tensor_of(x, kIn), tensor_of(y, 3 * kEach), own,
           {.act = Activation::gelu_tanh, .residual = tensor_of(residual, 3 * kEach)});
    return store.bytes() - before;
  };
  Arena measure, without;
  Stream stream{.arena = &measure, .pool = &layers.host.pool};
  const size_t planned = both(stream, true, true);
  EXPECT_GE(planned, static_cast<size_t>((16 + 16) * (kIn + kEach) * 4));
  Arena exact(measure.peak());
  stream.arena = &exact;
  EXPECT_EQ(both(stream, false, true), planned);
  EXPECT_EQ(exact.peak(), measure.peak());
  stream.arena = &without;
  EXPECT_EQ(both(stream, true, false), 0u);
  EXPECT_LT(without.peak(), measure.peak());
}

TEST(AdapterSet, WhatDoesNotFitIsRefusedByName) {
  Layers layers;
  ParamStore store({.pack_weights = true}, layers.host.stream);
  layers.joined(store);
  const auto message = [&](const LowRank& adapter, ErrorCode code = ErrorCode::invalid_argument) {
    try {
      const AdapterSet set({&adapter, 1}, store.linears(), "transformer", store);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code);
      return e.message();
    }
    return std::string("accepted");
  };
  const LowRank good = layers.adapter("a.to_k", "one");
  EXPECT_EQ(message(good), "accepted");
  LowRank bad = good;
  bad.layer = "a.to_x";
  EXPECT_THAT(message(bad, ErrorCode::not_found), HasSubstr("got 'a.to_x'; near: a.to_"));
  const char* expected =
      "transformer: adapter of a.to_k: expected A [r, 40] and B [20, r] of a rank r of at least 1";
  bad = good, bad.a = good.a.slice(0, 0, 0), bad.b = Tensor(good.b.data, DType::f32, {kEach, 0});
  EXPECT_THAT(message(bad), AllOf(HasSubstr(expected), HasSubstr("got [0, 40] and [20, 0]")));
  bad = good, bad.a = Tensor(good.a.data, DType::f32, {3, kIn - 1});
  EXPECT_THAT(message(bad), AllOf(HasSubstr(expected), HasSubstr("got [3, 39] and [20, 3]")));
  bad = good, bad.b = Tensor(good.b.data, DType::f32, {3 * kEach, 1});
  EXPECT_THAT(message(bad), HasSubstr("got [3, 40] and [60, 1]"));
  bad = good, bad.a = layers.adapter("a.to_k", "two").a;
  EXPECT_THAT(message(bad), HasSubstr("got [9, 40] and [20, 3]"));
  bad = good, bad.b = Tensor();
  EXPECT_THAT(message(bad), HasSubstr("got [3, 40] and []"));
  bad = good, bad.a.dtype = DType::i32;
  EXPECT_THAT(message(bad),
              HasSubstr("adapter of a.to_k: expected contiguous A and B of a float dtype, got i32"));
  bad = good, bad.scale = NAN;
  EXPECT_THAT(message(bad), HasSubstr("adapter of a.to_k: expected a finite scale, got nan"));
}

// Two sets take turns on one shelf: a recording made with the first one computes with the second one, if
// layers and sizes are the same.
TEST(AdapterSet, ASetInThePlaceOfAnotherHasItsLayout) {
  Layers layers;
  ParamStore store({.pack_weights = true}, layers.host.stream);
  const Linear linear = layers.joined(store);
  const auto x = HostRun::rows(3, kIn);
  BufferShelf shelf;
  const auto in_place = [&](std::vector<LowRank> adapters) {
    shelf.rewind();
    ParamStore own({.shelf = &shelf}, layers.host.stream);
    return std::make_unique<AdapterSet>(adapters, store.linears(), "model", own);
  };
  const LowRank one = layers.adapter("a.to_q", "one"), two = layers.adapter("a.to_v", "two"),
                three = layers.adapter("a.to_v", "three");
  const auto first = in_place({one, two});
  const auto layout = first->layout();
  EXPECT_EQ(in_place({three, one})->layout(), layout) << "another order, a rank of 16 in place of 9";
  const auto again = in_place({one, two});
  const std::vector<float> want = run(linear, x, layers.host.stream, again.get());
  EXPECT_NE(in_place({one})->layout(), layout);
  EXPECT_NE(in_place({one, layers.adapter("a.to_k", "two")})->layout(), layout);
  const LowRank both[] = {one, two};
  const AdapterSet elsewhere(both, store.linears(), "model", store);
  EXPECT_NE(elsewhere.layout(), layout);
  EXPECT_EQ(run(linear, x, layers.host.stream, &elsewhere), want);
}

// A set with new scales gives the bits of a set that was made with them.
TEST(AdapterSet, ScalesChangeAlone) {
  for (const Products products : {Products::as_activations, Products::e4m3, Products::int8}) {
    Layers layers;
    layers.host.stream.precision.products = products;
    ParamStore store({.pack_weights = true}, layers.host.stream);
    store.set_eight_bits([](std::string_view) { return true; });
    const Linear linear = layers.joined(store);
    const auto x = HostRun::rows(5, kIn);
    const LowRank given[] = {layers.adapter("a.to_v", "one", 3), layers.adapter("a.to_q", "two", -1),
                             layers.adapter("a.to_v", "three", 0.25f)};
    AdapterSet set(given, store.linears(), "model", store);
    const auto before = run(linear, x, layers.host.stream, &set);
    LowRank other[] = {given[0], given[1], given[2]};
    const float scales[] = {0.3f, 0, -2};
    for (size_t i = 0; i < 3; ++i) other[i].scale = scales[i];
    const AdapterSet made(other, store.linears(), "model", store);
    set.set_scales(scales, layers.host.stream);
    EXPECT_EQ(run(linear, x, layers.host.stream, &set), run(linear, x, layers.host.stream, &made));
    EXPECT_NE(run(linear, x, layers.host.stream, &set), before);
    EXPECT_THROW(set.set_scales({scales, 2}, layers.host.stream), Error);
  }
}

// A model that was loaded anew has other layers with the same names: a set made for the old ones would have
// no effect there.
TEST(AdapterSet, AnotherModelsStreamIsRefused) {
  Layers layers;
  ParamStore store({.pack_weights = true}, layers.host.stream),
      again({.pack_weights = true}, layers.host.stream);
  layers.joined(store), layers.joined(again);
  const LowRank adapters[] = {layers.adapter("a.to_k", "one")};
  const AdapterSet set(adapters, store.linears(), "model", store),
      other(adapters, store.linears(), "model", store);
  Stream stream = layers.host.stream;
  EXPECT_NO_THROW(expect_own_adapters("transformer", stream, again.linears()));
  stream.adapters = &set;
  EXPECT_NO_THROW(expect_own_adapters("transformer", stream, store.linears()));
  try {
    expect_own_adapters("transformer", stream, again.linears());
    ADD_FAILURE() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::internal);
    EXPECT_THAT(e.message(), HasSubstr("transformer: the stream's adapters were made for another model"));
  }
  EXPECT_NE(set.layout(), other.layout()) << "matrices that lie elsewhere";
}

}  // namespace
}  // namespace tachy::nn::test
