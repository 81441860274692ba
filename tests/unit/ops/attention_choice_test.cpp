// Which kernel of attention each GPU gets. The GPUs are stand-ins, so the test needs none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "ops/attention/attention.h"
#include "ops/attention/attention_impl.h"
#include "stand_in_gpu.h"

namespace tachy::ops {
namespace {

using testing::HasSubstr;

struct Card final : test::StandInGpu {
  Card(int capability, int multiprocessors, int shared_kib, const char* name = "a card") {
    info_.major = capability / 10, info_.minor = capability % 10, info_.name = name;
    info_.multiprocessors = multiprocessors, info_.shared_bytes = static_cast<size_t>(shared_kib) << 10;
  }
};

struct Shape {
  int64_t lq, lk, heads, dim = 128;
  bool eight_bits = false;
};

class AttentionChoice : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::kBuilt) GTEST_SKIP() << "this build has no code for GPUs";
  }
  static AttentionArgs args_of(const Card& gpu, const Shape& s, DType dtype = DType::bf16) {
    const auto tensor = [&](int64_t rows) {
      return Tensor(planned_address(0), dtype, {1, rows, s.heads, s.dim}, gpu.device());
    };
    AttentionArgs args{.q = tensor(s.lq), .k = tensor(s.lk), .v = tensor(s.lk)};
    args.eight_bits = s.eight_bits, args.out = tensor(s.lq);
    return args;
  }
  // The kernel that is chosen. Shapes whose choice comes before the library's kernel ask for no library.
  static std::string chosen(Card& gpu, const Shape& s, DType dtype = DType::bf16) {
    ThreadPool pool(1);
    Arena measure;
    const Stream stream{.arena = &measure, .pool = &pool, .gpu = &gpu, .memory = &gpu};
    const AttentionArgs args = args_of(gpu, s, dtype);
    const auto* impl = choose<AttentionArgs>("attention", attention_table(), args, stream);
    return impl ? impl->name : "none";
  }
  // Why a kernel leaves the shape to those after it; nothing if it does not.
  static std::string refusal(const char* kernel, Card& gpu, const Shape& s, DType dtype = DType::bf16) {
    ThreadPool pool(1);
    Arena measure;
    const Stream stream{.arena = &measure, .pool = &pool, .gpu = &gpu, .memory = &gpu};
    const auto table = attention_table();
    const auto at = std::find_if(table.begin(), table.end(),
                                 [&](const auto& impl) { return std::string_view(impl.name) == kernel; });
    if (at == table.end()) return "no such kernel";
    const auto why = at->why_not(args_of(gpu, s, dtype), stream);
    return why ? why->text() : "";
  }
};

TEST_F(AttentionChoice, OwnKernelsComeFirstWhereTheyWereCompared) {
  Card a100(80, 108, 163), rtx3090(86, 82, 99), rtx4090(89, 128, 99), rtx5090(120, 170, 99);
  for (Card* gpu : {&a100, &rtx3090, &rtx4090, &rtx5090}) {
    SCOPED_TRACE(gpu->info().capability());
    const bool large = gpu == &a100;  // a block of flash_stays_sm80 needs 154 KiB of shared memory
    EXPECT_EQ(chosen(*gpu, {32760, 32760, 12}), large ? "flash_stays_sm80" : "flash_long_sm80");
    EXPECT_EQ(chosen(*gpu, {32760, 32760, 24, 64}), "flash_long_sm80");
    EXPECT_EQ(chosen(*gpu, {2600, 32760, 12}), "flash_long_sm80");
    for (const int64_t heads : {12, 40})
      for (const int64_t keys : {257, 512})
        EXPECT_EQ(chosen(*gpu, {32760, keys, heads}), large ? "flash_stays_sm80" : "flash_sm80_whole");
    EXPECT_EQ(chosen(*gpu, {32760, 128, 12}), "flash_sm80_whole");
    EXPECT_EQ(chosen(*gpu, {32760, 32760, 12}, DType::f16), "flash_sm80_whole");
    for (const int64_t dim : {128, 64}) EXPECT_EQ(chosen(*gpu, {32760, 32760, 12, dim, true}), "flash8_sm80");
  }
}

TEST_F(AttentionChoice, ALibraryComesFirstElsewhere) {
  Card a100(80, 108, 163), t4(75, 40, 64), h200(90, 132, 227), b200(100, 148, 227);
  for (const char* kernel : {"flash_long_sm80", "flash_sm80_whole", "flash_stays_sm80"}) {
    SCOPED_TRACE(kernel);
    // The next token of a language model has too few queries for kernels that do not divide the keys.
    EXPECT_THAT(refusal(kernel, a100, {1, 4096, 32}), HasSubstr("fewer queries than 128"));
    EXPECT_EQ(refusal(kernel, a100, {4680, 4096, 12}), "");
    EXPECT_THAT(refusal(kernel, h200, {32760, 32760, 12}), HasSubstr("own instructions"));
    EXPECT_THAT(refusal(kernel, b200, {32760, 32760, 12}), HasSubstr("own instructions"));
  }
  EXPECT_THAT(refusal("flash_sm80_whole", a100, {32760, 77, 12}), HasSubstr("fewer keys than 128"));
  EXPECT_THAT(refusal("flash_stays_sm80", a100, {32760, 128, 12}), HasSubstr("fewer keys than 256"));
  EXPECT_THAT(refusal("flash_stays_sm80", a100, {4000, 512, 12}), HasSubstr("two for each multiprocessor"));
  EXPECT_THAT(refusal("flash_stays_sm80", t4, {32760, 512, 12}), HasSubstr("does not fit"));
  EXPECT_THAT(refusal("flash_sm80_whole", t4, {32760, 512, 12, 64}, DType::f16), HasSubstr("before 8.0"));
}

}  // namespace
}  // namespace tachy::ops
