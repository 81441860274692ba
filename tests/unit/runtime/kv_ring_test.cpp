// Tests the ring of keys and values: which frames it has, in which slots, for windows that are multiples of
// blocks and others.
#include "runtime/kv_ring.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/error.h"
#include "tensor/memory.h"

namespace tachy::runtime {
namespace {

std::vector<int64_t> slots_of(const RingSlots& ring, int64_t first, int64_t frames) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < frames; ++i) out.push_back(ring.slot(first + i));
  return out;
}

TEST(RingSlots, OfPublishedWindows) {
  using List = std::vector<int64_t>;
  const RingSlots six{6, 0}, four{4, 0}, sinks{12, 3};
  const List of_six[] = {{0, 1, 2}, {3, 4, 5}, {0, 1, 2}, {3, 4, 5}};
  const List of_four[] = {{0, 1, 2}, {3, 0, 1}, {2, 3, 0}, {1, 2, 3}};
  const List of_sinks[] = {{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9, 10, 11}, {3, 4, 5}, {6, 7, 8}};
  for (int64_t b = 0; b < 4; ++b) {
    EXPECT_EQ(slots_of(six, 3 * b, 3), of_six[b]);
    EXPECT_EQ(slots_of(four, 3 * b, 3), of_four[b]);
  }
  for (int64_t b = 0; b < 6; ++b) EXPECT_EQ(slots_of(sinks, 3 * b, 3), of_sinks[b]);
}

TEST(RingSlots, BlocksThatDoNotFit) {
  EXPECT_NO_THROW((RingSlots{4, 1}.expect_block(3)));
  EXPECT_THROW((RingSlots{4, 1}.expect_block(4)), Error);
  EXPECT_THROW((RingSlots{4, 4}.expect_block(1)), Error);
  EXPECT_THROW((RingSlots{4, -1}.expect_block(1)), Error);
  EXPECT_THROW((RingSlots{0, 0}.expect_block(1)), Error);
  EXPECT_THROW((RingSlots{4, 0}.expect_block(0)), Error);
}

// A ring of two layers whose values name their frame, token and layer.
struct Filled {
  static constexpr int64_t kLayers = 2, kTokens = 3, kChannels = 4;
  RingSlots slots;
  std::vector<Buffer> buffers = {};
  ThreadPool pool{2};
  Arena arena{1 << 16};
  Stream stream{.arena = &arena, .pool = &pool};
  KvRing ring =
      KvRing::make(slots, kLayers, kTokens, kChannels, true, [&](std::initializer_list<int64_t> dims) {
        Tensor shape(nullptr, DType::f32, dims);
        return buffers.emplace_back(static_cast<size_t>(shape.bytes())).tensor(DType::f32, dims);
      });

  static float value(int64_t frame, int64_t token, int64_t layer) {
    return static_cast<float>(100 * frame + 10 * token + layer);
  }
  // Puts rows that have other values between them, as in a joined product. With in_place, keys are made in
  // their final place if they have one.
  void put(int64_t layer, int64_t first, int64_t frames, bool in_place = false) {
    std::vector<float> rows(static_cast<size_t>(frames * kTokens * 3 * kChannels), -1.0f);
    const Tensor all(rows.data(), DType::f32, {frames * kTokens, 3 * kChannels});
    for (int64_t i = 0; i < frames * kTokens; ++i)
      for (int64_t c = 0; c < kChannels; ++c) {
        const float v = value(first + i / kTokens, i % kTokens, layer);
        rows[static_cast<size_t>(i * 3 * kChannels + kChannels + c)] = v;
        rows[static_cast<size_t>(i * 3 * kChannels + 2 * kChannels + c)] = -v;
      }
    const Tensor k = all.slice(1, kChannels, 2 * kChannels), v = all.slice(1, 2 * kChannels, 3 * kChannels);
    const std::optional<Tensor> place = in_place ? ring.place(layer, first, frames) : std::nullopt;
    for (int64_t i = 0; place && i < frames * kTokens; ++i)
      std::copy_n(k.select(0, i).as<float>(), kChannels, place->select(0, i).as<float>());
    ring.put(layer, first, place ? Tensor() : k, v, stream);
  }
  // Returns the frames that the ring has if `end` is the next one; all of their tokens must be there, and no
  // others.
  std::set<int64_t> frames(int64_t layer, int64_t end) const {
    std::set<int64_t> out;
    const Tensor k = ring.keys(layer, end), v = ring.values(layer, end);
    for (int64_t s = 0; s < k.dim(0); ++s) {
      const auto frame = static_cast<int64_t>(k.as<float>()[s * kTokens * kChannels]) / 100;
      for (int64_t t = 0; t < kTokens; ++t)
        for (int64_t c = 0; c < kChannels; ++c) {
          const int64_t at = (s * kTokens + t) * kChannels + c;
          EXPECT_EQ(k.as<float>()[at], value(frame, t, layer));
          EXPECT_EQ(v.as<float>()[at], -value(frame, t, layer));
        }
      EXPECT_TRUE(out.insert(frame).second) << "twice";
    }
    return out;
  }
};

TEST(KvRing, HasTheSinksAndTheLastFrames) {
  struct Case {
    int64_t frames, sinks, block;
  };
  for (const Case& c : {Case{6, 0, 3}, Case{4, 0, 3}, Case{12, 3, 3}, Case{21, 0, 3}, Case{7, 1, 3},
                        Case{5, 2, 3}, Case{21, 5, 1}, Case{3, 0, 3}, Case{5, 1, 2}}) {
    Filled filled{.slots = {c.frames, c.sinks}};
    for (int64_t first = 0; first < 40; first += c.block)
      for (int64_t pass = 0; pass < 4; ++pass) {  // each pass of a block writes its frames again
        const int64_t end = first + c.block;
        std::set<int64_t> want;
        for (int64_t f = 0; f < end; ++f)
          if (f < c.sinks || f >= end - (c.frames - c.sinks)) want.insert(f);
        for (int64_t layer = 0; layer < Filled::kLayers; ++layer) {
          filled.put(layer, first, c.block, pass % 2 == 1);
          EXPECT_EQ(filled.frames(layer, end), want)
              << c.frames << ' ' << c.sinks << ' ' << c.block << ' ' << first;
        }
      }
  }
}

// Keys are made in the ring if a block's slots are consecutive, but not if a sink's must be kept twice.
TEST(KvRing, PlacesOfBlocks) {
  const auto places = [](int64_t frames, int64_t sinks, bool moving) {
    const Filled filled{.slots = {frames, sinks}};
    KvRing ring = filled.ring;
    if (!moving) ring.sinks_k = Tensor();
    std::vector<int64_t> out;  // the slot that a block of three begins with, or -1
    for (int64_t first = 0; first < 15; first += 3) {
      const std::optional<Tensor> place = ring.place(1, first, 3);
      out.push_back(-1);
      if (!place) continue;
      EXPECT_EQ(shape_string(*place), "[9, 4]");
      EXPECT_TRUE(place->contiguous());
      out.back() =
          (place->as<float>() - ring.k.select(0, 1).as<float>()) / (Filled::kTokens * Filled::kChannels);
    }
    return out;
  };
  using List = std::vector<int64_t>;
  EXPECT_EQ(places(6, 0, false), (List{0, 3, 0, 3, 0}));
  EXPECT_EQ(places(4, 0, false), (List{0, -1, -1, 1, 0}));
  EXPECT_EQ(places(9, 3, true), (List{-1, 3, 6, 3, 6}));
  EXPECT_EQ(places(9, 3, false), (List{0, 3, 6, 3, 6}));
  EXPECT_EQ(places(7, 1, true), (List{-1, 3, -1, 3, -1}));
  EXPECT_EQ(places(7, 1, false), (List{0, 3, -1, 3, -1}));
}

// Rotated by a quarter, a pair (a, b) becomes (-b, a). The rotation always starts from the first values, and
// affects only the sinks' keys.
TEST(KvRing, SinksTurnFromTheirFirstValues) {
  Filled filled{.slots = {4, 2}};
  for (int64_t first = 0; first < 8; first += 2)
    for (int64_t layer = 0; layer < Filled::kLayers; ++layer) filled.put(layer, first, 2, true);
  std::vector<float> cos(2 * Filled::kTokens * 2, 0.0f), sin(cos.size(), 1.0f);
  const Tensor c(cos.data(), DType::f32, {2 * Filled::kTokens, 2}),
      s(sin.data(), DType::f32, {2 * Filled::kTokens, 2});
  for (int times = 0; times < 3; ++times) {
    filled.ring.turn_sinks(c, s, 1, filled.stream);
    for (int64_t layer = 0; layer < Filled::kLayers; ++layer) {
      const Tensor k = filled.ring.keys(layer, 8), v = filled.ring.values(layer, 8);
      for (int64_t i = 0; i < 4 * Filled::kTokens * Filled::kChannels; ++i) {
        const int64_t slot = i / (Filled::kTokens * Filled::kChannels),
                      token = i / Filled::kChannels % Filled::kTokens;
        const int64_t frame = slot < 2 ? slot : slot + 4;
        const float value = Filled::value(frame, token, layer);
        EXPECT_EQ(k.as<float>()[i], slot < 2 && i % 2 == 0 ? -value : value);
        EXPECT_EQ(v.as<float>()[i], -value);
      }
    }
  }
}

}  // namespace
}  // namespace tachy::runtime
