// A shelf gives its next user the same Buffers, and tells whether they still hold what the last one put there.
#include "tensor/buffer_shelf.h"

#include <gtest/gtest.h>

namespace tachy {
namespace {

TEST(BufferShelf, TellsWhetherABufferHoldsWhatItsLastUserNamed) {
  BufferShelf shelf;
  const auto take = [&](size_t bytes) { return shelf.take(bytes, nullptr).data(); };
  const void *table = take(64), *other = take(32);
  EXPECT_FALSE(shelf.holds(table, "rope 2x3")) << "nobody has filled it";
  shelf.rewind();
  EXPECT_EQ(take(64), table);
  EXPECT_EQ(take(32), other);
  EXPECT_TRUE(shelf.holds(table, "rope 2x3"));
  EXPECT_FALSE(shelf.holds(other, "rope 2x3"));
  shelf.rewind();
  EXPECT_EQ(take(64), table);
  EXPECT_FALSE(shelf.holds(table, "rope 2x4")) << "it must be filled again";
  shelf.rewind();
  take(64);
  shelf.rewind();
  take(64);
  EXPECT_FALSE(shelf.holds(table, "rope 2x4")) << "a user without a name may have written anything";
  shelf.rewind();
  const void* larger = take(128);
  EXPECT_FALSE(shelf.holds(larger, "rope 2x4"));
  EXPECT_FALSE(shelf.holds(&shelf, "rope 2x4")) << "it is not the shelf's";
}

}  // namespace
}  // namespace tachy
