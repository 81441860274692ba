// Tests Buffer and Arena: alignment, accounting, rewinding, and that a measure run gives the exact peak.
#include "tensor/memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <utility>

#include "tensor/peak_watch.h"

namespace tachy {
namespace {

bool aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % kAlignment == 0; }

TEST(PeakWatch, NotesTheMostSinceItBegan) {
  const Buffer before(1 << 20);
  Buffer(8 << 20);
  const PeakWatch outer(nullptr);
  EXPECT_EQ(outer.before(), Buffer::live_bytes());
  {
    const Buffer one(2 << 20);
    const PeakWatch inner(nullptr);
    Buffer(1 << 20);
    Buffer::reset_peak();
    EXPECT_EQ(inner.peak() - inner.before(), 1u << 20) << "the counter that is reset is another one";
    EXPECT_EQ(inner.before() - outer.before(), 2u << 20);
  }
  const Buffer two(1 << 20);
  EXPECT_EQ(outer.peak() - outer.before(), 3u << 20);
}

TEST(Buffer, CountsLiveAndPeakBytes) {
  const size_t before = Buffer::live_bytes();
  Buffer::reset_peak();
  EXPECT_EQ(Buffer::peak_bytes(), before);
  {
    Buffer a(1000);
    EXPECT_TRUE(aligned(a.data()));
    EXPECT_EQ(a.size(), 1000u);
    EXPECT_EQ(Buffer::live_bytes(), before + 1024);
    {
      const Buffer b(256);
      EXPECT_EQ(Buffer::live_bytes(), before + 1280);
    }
    EXPECT_EQ(Buffer::live_bytes(), before + 1024);
    const Buffer moved = std::move(a);
    EXPECT_EQ(Buffer::live_bytes(), before + 1024);
    const Arena arena(512);
    EXPECT_EQ(Buffer::live_bytes(), before + 1536);
  }
  EXPECT_EQ(Buffer::live_bytes(), before);
  EXPECT_EQ(Buffer::peak_bytes(), before + 1536);
  Buffer::reset_peak();
  EXPECT_EQ(Buffer::peak_bytes(), before);
}

TEST(Buffer, TensorsMustFit) {
  const Buffer buffer(48);
  const Tensor t = buffer.tensor(DType::f32, {3, 4});
  EXPECT_EQ(t.data, buffer.data());
  std::memset(t.data, 0, static_cast<size_t>(t.bytes()));
  EXPECT_THROW(buffer.tensor(DType::f32, {13}), Error);
  EXPECT_NO_THROW(Buffer(0));
}

TEST(Buffer, TooLargeIsOutOfMemory) {
  const size_t before = Buffer::live_bytes();
#ifdef __SANITIZE_ADDRESS__  // the sanitizer aborts on sizes that only the allocator can refuse
  const size_t sizes[] = {std::numeric_limits<size_t>::max(), size_t{1} << 56};
#else
  const size_t sizes[] = {std::numeric_limits<size_t>::max(), size_t{1} << 55};
#endif
  for (size_t bytes : sizes) {
    try {
      Buffer buffer(bytes);
      FAIL() << bytes;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    }
  }
  EXPECT_EQ(Buffer::live_bytes(), before);
}

// Makes the same tensors, like a model, in a measuring arena and in a real one.
void walk(Arena& arena) {
  const Tensor kept = arena.f32({10, 10});
  for (int block = 0; block < 3; ++block) {
    const ArenaScope scope(arena);
    const Tensor a = arena.tensor(DType::bf16, {100 + block});
    const Tensor b = arena.f32({7});
    EXPECT_EQ(a.device, arena.measuring() ? Device::null : Device::cpu);
    EXPECT_TRUE(aligned(a.data) && aligned(b.data) && aligned(kept.data));
    EXPECT_EQ(static_cast<char*>(a.data) - static_cast<char*>(kept.data), 512);  // addresses repeat
    if (arena.measuring()) continue;
    std::memset(b.data, 0, static_cast<size_t>(b.bytes()));
  }
}

// Does the same with an allocation for each tensor: one address says nothing about another.
void walk_pieces(Arena& arena) {
  const Tensor kept = arena.f32({10, 10});
  for (int block = 0; block < 3; ++block) {
    const ArenaScope scope(arena);
    const Tensor a = arena.tensor(DType::bf16, {100 + block}), b = arena.f32({7});
    EXPECT_TRUE(aligned(a.data) && aligned(b.data) && aligned(kept.data));
    for (const Tensor& t : {a, b, kept}) std::memset(t.data, block, static_cast<size_t>(t.bytes()));
  }
}

TEST(Arena, MeasureRunGivesTheExactPeak) {
  Arena measuring;
  EXPECT_TRUE(measuring.measuring());
  walk(measuring);
  EXPECT_EQ(measuring.peak(), 512u + 256 + 256);

  Arena exact(512 + 512);
  EXPECT_FALSE(exact.measuring());
  walk(exact);
  EXPECT_EQ(exact.peak(), exact.capacity());
  EXPECT_EQ(exact.mark(), 512u);  // scopes have released their part
  exact.rewind(0);
  walk(exact);

  Arena pieces(512 + 512, nullptr, Arena::Kind::pieces);
  walk_pieces(pieces);
  EXPECT_EQ(pieces.peak(), pieces.capacity()) << "the same room";

  Arena small(512 + 256);
  try {
    walk(small);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::internal);
  }
}

TEST(ArenaOfPieces, EachIsFreedWhenItIsGivenBack) {
  const size_t before = Buffer::live_bytes();
  {
    Arena arena(4096, nullptr, Arena::Kind::pieces);
    EXPECT_EQ(Buffer::live_bytes(), before) << "nothing is taken beforehand";
    arena.f32({10});
    const size_t mark = arena.mark();
    arena.f32({100}), arena.bytes(0);
    EXPECT_GE(Buffer::live_bytes(), before + 440);
    arena.rewind(mark);
    EXPECT_EQ(Buffer::live_bytes(), before + 40) << "exactly what was asked for";
    EXPECT_THROW(arena.f32({4096}), Error) << "the plan holds here as well";
  }
  EXPECT_EQ(Buffer::live_bytes(), before);
}

#if defined(__SANITIZE_ADDRESS__)
// An arena of pieces exists for this: AddressSanitizer notices one byte too many, and a tensor that is used
// after its release. In an arena of one block it notices neither.
TEST(ArenaOfPieces, AddressSanitizerSeesWhoLeavesAPiece) {
  const auto overrun = [](Arena::Kind kind) {
    Arena arena(4096, nullptr, kind);
    const Tensor a = arena.f32({10}), b = arena.f32({10});
    static_cast<volatile char*>(a.data)[a.bytes()] = 1;
    return b.data != nullptr;
  };
  const auto late = [](Arena::Kind kind) {
    Arena arena(4096, nullptr, kind);
    Tensor a;
    {
      const ArenaScope scope(arena);
      a = arena.f32({10});
    }
    static_cast<volatile char*>(a.data)[0] = 1;
    return true;
  };
  EXPECT_TRUE(overrun(Arena::Kind::whole) && late(Arena::Kind::whole));
  EXPECT_DEATH(overrun(Arena::Kind::pieces), "heap-buffer-overflow");
  EXPECT_DEATH(late(Arena::Kind::pieces), "heap-use-after-free");
}
#endif

}  // namespace
}  // namespace tachy
