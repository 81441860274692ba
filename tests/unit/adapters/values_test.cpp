// Tests values of an adapter's tensors: kinds of numbers, scales beside them, and values that are not
// numbers.
#include <cmath>

#include "support.h"
#include "weights/quote.h"

namespace tachy::test {
namespace {

using testing::HasSubstr;

const std::string kStem = "blocks.0.attn1.to_q";

std::vector<double> numbers(size_t count, double step) {
  std::vector<double> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = std::sin(step * static_cast<double>(i + 1));
  return out;
}

std::string error_of(const MadeSource& made) {
  try {
    Model().match(made_adapter(made, "folder/x.safetensors"));
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// Returns the difference that the pair adds to the layer's weight.
std::vector<float> delta_of(const MadeSource& made) {
  const AdapterMatch match = Model().match(made_adapter(made));
  EXPECT_EQ(match.parts[0].changes.size(), 1u);
  EXPECT_TRUE(match.unmatched.empty()) << match.unmatched.front().reason;
  std::vector<float> rows(24 * 24, 0.0f);
  apply_change(*match.parts[0].changes.at(0), 1, 0, Tensor(rows.data(), DType::f32, {24, 24}));
  return rows;
}

TEST(AdapterValues, DoublesAreNarrowedOnce) {
  const auto down = numbers(48, 0.7), up = numbers(48, 1.3);
  MadeSource wide, narrow;
  wide.add_raw(kStem + ".lora_A.weight", {2, 24}, DType::f64, down)
      .add_raw(kStem + ".lora_B.weight", {24, 2}, DType::f64, up);
  narrow.add_raw(kStem + ".lora_A.weight", {2, 24}, DType::f32, std::vector<float>(down.begin(), down.end()));
  narrow.add_raw(kStem + ".lora_B.weight", {24, 2}, DType::f32, std::vector<float>(up.begin(), up.end()));
  EXPECT_EQ(delta_of(wide), delta_of(narrow));
}

// Codes in e4m3 have one scale, or one for each row, as in models' weights (ComfyUI's scale_weight,
// LightX2V's weight_scale).
TEST(AdapterValues, ScalesBesideCodesAreApplied) {
  const std::vector<uint8_t> codes(48, 0x38);  // the code of 1.0
  std::vector<float> rows(24);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i + 1);
  MadeSource made;
  made.add_raw(kStem + ".lora_down.weight", {2, 24}, DType::f8_e4m3, codes)
      .add(kStem + ".lora_down.scale_weight", {1}, 0.25f);
  made.add_raw(kStem + ".lora_up.weight", {24, 2}, DType::f8_e4m3, codes);
  made.add_raw(kStem + ".lora_up.weight_scale", {24, 1}, DType::f32, rows);
  made.add(kStem + ".lora_up.scale_input", {1}, 3).add("scaled_fp8", {2});
  const auto delta = delta_of(made);
  for (size_t i = 0; i < delta.size(); ++i)
    EXPECT_FLOAT_EQ(delta[i], 2 * 0.25f * static_cast<float>(i / 24 + 1));
  MadeSource bare;  // without scales the codes are the values
  bare.add_raw(kStem + ".lora_down.weight", {2, 24}, DType::f8_e4m3, codes);
  bare.add_raw(kStem + ".lora_up.weight", {24, 2}, DType::f8_e4m3, codes);
  EXPECT_FLOAT_EQ(delta_of(bare)[5], 2);
}

TEST(AdapterValues, AScaleThatIsNotUnderstoodIsRefusedByName) {
  const std::vector<uint8_t> codes(48, 0x38);
  const auto with = [&](const std::string& name, std::vector<int64_t> dims) {
    MadeSource made;
    made.add_raw(kStem + ".lora_down.weight", {2, 24}, DType::f8_e4m3, codes);
    made.add_raw(kStem + ".lora_up.weight", {24, 2}, DType::f8_e4m3, codes);
    made.add(name, std::move(dims));
    return error_of(made);
  };
  const std::string name = in_quotes(kStem + ".lora_down.weight_scale");
  EXPECT_THAT(with(kStem + ".lora_down.weight_scale", {5}), HasSubstr(name));
  EXPECT_THAT(with(kStem + ".lora_down.scale_weight", {24}),
              HasSubstr(in_quotes(kStem + ".lora_down.scale_weight")));
  for (const char* unknown : {".lora_down.scale", ".lora_down.weight.scale", ".weight_scale_of_all",
                              ".lora_up.zero_point", ".lora_up.weight_quantizer", ".scale_weight"})
    EXPECT_THAT(with(kStem + unknown, {1}), HasSubstr(in_quotes(kStem + unknown)));
  MadeSource floats = pair_of(kStem);
  floats.add(kStem + ".lora_down.scale_weight", {1});
  EXPECT_THAT(error_of(floats), HasSubstr("expected 8-bit values"));
}

TEST(AdapterValues, WholeNumbersAreAnErrorWithFileAndTensor) {
  for (const DType dtype : {DType::i32, DType::i64}) {
    MadeSource made;
    made.add(kStem + ".lora_A.weight", {2, 24});
    made.add_raw(kStem + ".lora_B.weight", {24, 2}, dtype, std::vector<int64_t>(48, 1));
    made.entries.back().bytes = static_cast<uint64_t>(48 * dtype_size(dtype));
    EXPECT_THAT(error_of(made), HasSubstr("tensor " + in_quotes(kStem + ".lora_B.weight") + ": it is "));
    EXPECT_THAT(error_of(made), HasSubstr("floating-point"));
  }
}

TEST(AdapterValues, NoNumbersAreAnErrorWithFileTensorAndPlace) {
  for (const float odd : {NAN, INFINITY, -INFINITY}) {
    for (const std::string role : {".lora_A.weight", ".lora_B.weight", ".dora_scale", ".alpha"}) {
      MadeSource made;
      made.add(kStem + ".lora_A.weight", {2, 24}).add(kStem + ".lora_B.weight", {24, 2});
      made.add(kStem + ".dora_scale", {24, 1}).add(kStem + ".alpha", {1});
      const size_t at = role == ".lora_A.weight"   ? 0
                        : role == ".lora_B.weight" ? 1
                        : role == ".dora_scale"    ? 2
                                                   : 3;
      made.values[at].back() = odd;
      EXPECT_THAT(error_of(made), HasSubstr("tensor " + in_quotes(kStem + role) + ": ")) << odd;
    }
  }
  MadeSource delta;
  delta.add("blocks.0.attn1.norm_q.diff", {24});
  delta.values[0][7] = NAN;
  EXPECT_THAT(error_of(delta), HasSubstr("value 7 is NaN"));
  // Each dtype encodes a value that is not finite in its own way, and a float64 may exceed float32.
  const auto with = [](DType dtype, auto value, size_t count) {
    MadeSource made;
    made.add_raw("blocks.0.attn1.norm_q.diff", {24}, dtype, std::vector(count, value));
    return error_of(made);
  };
  EXPECT_THAT(with(DType::f16, uint16_t{0xfc01}, 24), HasSubstr("value 0 is NaN"));
  EXPECT_THAT(with(DType::bf16, uint16_t{0x7f80}, 24), HasSubstr("value 0 is infinite"));
  EXPECT_THAT(with(DType::f8_e4m3, uint8_t{0x7f}, 24), HasSubstr("value 0 is NaN"));
  EXPECT_THAT(with(DType::f8_e5m2, uint8_t{0x7c}, 24), HasSubstr("value 0 is infinite"));
  EXPECT_THAT(with(DType::f64, 1e300, 24), HasSubstr("value 0 is infinite"));
  EXPECT_EQ(with(DType::f8_e4m3, uint8_t{0x7e}, 24), "");
  EXPECT_EQ(with(DType::f16, uint16_t{0x7bff}, 24), "");
}

// LyCORIS' dora_scale also goes with LoHa and LoKr: m ∘ V / |rows of V| with V = W + s·D.
TEST(AdapterValues, MagnitudesOfLoKr) {
  MadeSource made;
  made.add(kStem + ".lokr_w1", {2, 2}, 0.5f)
      .add(kStem + ".lokr_w2", {12, 12}, 0.25f)
      .add(kStem + ".dora_scale", {24, 1}, 3);
  const AdapterMatch match = Model().match(made_adapter(made));
  ASSERT_EQ(match.parts[0].changes.size(), 1u);
  EXPECT_STREQ(kind_name(*match.parts[0].changes[0]), "LoKr with DoRA");
  std::vector<float> rows(24 * 24, 1.0f);
  apply_change(*match.parts[0].changes[0], 1, 0, Tensor(rows.data(), DType::f32, {24, 24}));
  for (const float v : rows) EXPECT_NEAR(v, 3 / std::sqrt(24.0), 1e-6);
}

TEST(AdapterValues, ATensorWithoutAMeaningBesideTheOthersIsNamed) {
  MadeSource made = pair_of(kStem);
  made.add(kStem + ".lora_unheard_of.weight", {2});
  AdapterMatch match = Model().match(made_adapter(made));
  ASSERT_EQ(match.unmatched.size(), 1u);
  EXPECT_THAT(match.unmatched[0].reason, HasSubstr(kStem + ".lora_unheard_of.weight"));
  MadeSource doubled;
  doubled.add(kStem + ".lokr_w1", {2, 2}).add(kStem + ".lokr_w2", {12, 12}).add(kStem + ".lokr_w1_a", {2, 1});
  match = Model().match(made_adapter(doubled));
  ASSERT_EQ(match.unmatched.size(), 1u);
  EXPECT_THAT(match.unmatched[0].reason, HasSubstr(".lokr_w1_a\" has no meaning beside the others"));
}

}  // namespace
}  // namespace tachy::test
