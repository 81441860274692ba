// Adapters of every kind are merged into a model, and compared with the results of peft and diffusers for the
// same files.
#include <unistd.h>

#include <cmath>

#include "support.h"
#include "weights/quantized/quantized_source.h"
#include "weights/safetensors.h"

namespace tachy::test {
namespace {

struct Case {
  const char* name;
  const char* file;
  double strength;
  int64_t layers;
};

// Returns the changes that a file makes to the model, with this strength.
std::vector<WeightedChange> changes_of(const Model& model, const AdapterFile& file, double strength) {
  const AdapterMatch match = model.match(file);
  std::vector<WeightedChange> out;
  for (const auto& change : match.parts.at(0).changes) out.push_back({change, strength, file.source});
  return out;
}

class Merge : public testing::TestWithParam<Case> {};

TEST_P(Merge, IsWhatTheReferenceMakes) {
  const Model model;
  const AdapterFile file = open_adapter(golden(GetParam().file));
  const AdapterMatch match = model.match(file);
  EXPECT_TRUE(match.unmatched.empty())
      << match.unmatched.front().key << ": " << match.unmatched.front().reason;
  EXPECT_EQ(match.matched, GetParam().layers);
  const auto merged = merged_source(model.source, changes_of(model, file, GetParam().strength));
  const auto expected = open_weights(golden(std::string(GetParam().name) + ".merged.safetensors"));
  size_t changed = 0;
  for (const TensorSource::Entry& entry : merged->entries()) {
    const auto ours = values_of(*merged, entry.name);
    const bool should = expected->has(entry.name);
    const auto theirs = values_of(should ? *expected : *model.source, entry.name);
    EXPECT_EQ(entry.derived != nullptr, should) << entry.name;
    changed += should;
    ASSERT_EQ(ours.size(), theirs.size());
    // The values are sums of at most five products of values near 1.
    for (size_t i = 0; i < ours.size(); ++i)
      ASSERT_NEAR(ours[i], theirs[i], should ? 4e-6 : 0) << entry.name << " " << i;
  }
  EXPECT_EQ(changed, expected->entries().size());
}

INSTANTIATE_TEST_SUITE_P(Adapters, Merge,
                         testing::Values(Case{"peft", "peft", 1, 8}, Case{"rslora", "rslora", 1, 8},
                                         Case{"dora", "dora", 1, 8}, Case{"lora_bias", "lora_bias", 1, 8},
                                         Case{"loha", "loha", 1, 8}, Case{"lokr", "lokr", 1, 8},
                                         Case{"lokr_both", "lokr_both", 1, 8},
                                         Case{"peft_regex", "peft_regex", 1, 8},
                                         Case{"lokr_ranks", "lokr_ranks", 1, 8},
                                         Case{"diffusers_ranks", "diffusers_ranks.safetensors", 1, 8},
                                         Case{"original", "original.safetensors", 0.75, 8},
                                         Case{"underscored", "underscored.safetensors", 1, 12},
                                         Case{"diffusers", "diffusers.safetensors", 0.75, 8},
                                         Case{"deltas", "deltas.safetensors", 0.5, 9}),
                         [](const auto& info) { return std::string(info.param.name); });

// Adds W + strength·alpha/rank·(W·a1·a2 + b1·b2), as in LyCORIS; here plain sums in float64 compute it.
TEST(Merge, GloraMultipliesTheWeightItself) {
  const Model model;
  const std::string layer = "blocks.0.attn1.to_q";
  const TensorSource::Entry& weight = *model.source->find(layer + ".weight");
  const int64_t out = weight.dims[0], in = weight.dims[1], rank = 3;
  MadeSource made;
  const auto add = [&](const char* name, int64_t rows, int64_t columns, float step) {
    made.add("diffusion_model.blocks.0.self_attn.q." + std::string(name) + ".weight", {rows, columns});
    for (size_t i = 0; i < made.values.back().size(); ++i)
      made.values.back()[i] = std::sin(static_cast<float>(i + 1) * step);
  };
  add("a1", in, rank, 0.7f), add("a2", rank, in, 1.3f), add("b1", out, rank, 0.4f), add("b2", rank, in, 2.1f);
  made.add("diffusion_model.blocks.0.self_attn.q.alpha", {1}, 1.5f);
  const AdapterFile file = made_adapter(made);
  const AdapterMatch match = model.match(file);
  ASSERT_EQ(match.parts[0].changes.size(), 1u);
  EXPECT_STREQ(kind_name(*match.parts[0].changes[0]), "GLoRA");
  const auto ours = values_of(*merged_source(model.source, changes_of(model, file, 0.6)), weight.name),
             before = values_of(*model.source, weight.name);
  const auto at = [](const std::vector<float>& m, int64_t columns, int64_t i, int64_t j) {
    return static_cast<double>(m[static_cast<size_t>(i * columns + j)]);
  };
  double most = 0;
  for (int64_t i = 0; i < out; ++i) {
    std::vector<double> through(rank);
    for (int64_t r = 0; r < rank; ++r)
      for (int64_t k = 0; k < in; ++k)
        through[static_cast<size_t>(r)] += at(before, in, i, k) * at(made.values[0], rank, k, r);
    for (int64_t j = 0; j < in; ++j) {
      double sum = 0;
      for (int64_t r = 0; r < rank; ++r)
        sum += through[static_cast<size_t>(r)] * at(made.values[1], in, r, j) +
               at(made.values[2], rank, i, r) * at(made.values[3], in, r, j);
      ASSERT_NEAR(at(ours, in, i, j), at(before, in, i, j) + 0.6 * 0.5 * sum, 2e-5) << i << " " << j;
      most = std::max(most, std::abs(sum));
    }
  }
  EXPECT_GT(most, 0.1);
}

// A weight in 8 bits is first turned into its value, code times scale, before anything is added. The result
// is float32 unless the file's own dtype asks for another.
TEST(Merge, IntoTheValuesOfCodesAndNotIntoCodes) {
  const std::string layer = "blocks.0.attn1.to_q";
  uint8_t codes[64];
  for (int i = 0; i < 64; ++i) codes[i] = to_f8_e4m3(static_cast<float>(i - 20) / 8).bits;
  float scale = 0.015625f;
  uint8_t marker[2] = {};
  const fs::path path = fs::temp_directory_path() / ("tachy_merge_" + std::to_string(::getpid()));
  for (const bool scaled : {false, true}) {
    std::vector<NamedTensor> tensors = {{layer + ".weight", Tensor(codes, DType::f8_e4m3, {8, 8})}};
    if (scaled) {
      tensors.push_back({layer + ".scale_weight", Tensor(&scale, DType::f32, {1})});
      tensors.push_back({"scaled_fp8", Tensor(marker, DType::f8_e4m3, {2})});
    }
    write_safetensors(path, tensors);
    const Model model(dequantized(open_safetensors(path)));
    fs::remove(path);
    MadeSource lora;
    lora.add(layer + ".lora_A.weight", {1, 8}, 0.5f).add(layer + ".lora_B.weight", {8, 1}, 0.25f);
    const AdapterFile file = made_adapter(lora);
    const auto merged = merged_source(model.source, changes_of(model, file, 1));
    const TensorSource::Entry& entry = *merged->find(layer + ".weight");
    EXPECT_EQ(entry.dtype, DType::f32);
    const std::vector<float> values = values_of(*merged, entry.name);
    for (size_t i = 0; i < 64; ++i)
      EXPECT_EQ(values[i], to_float(f8_e4m3_t{codes[i]}) * (scaled ? scale : 1) + 0.125f) << i;
  }
}

// The strength moves the weight along the straight line to the merged weight, even if the change depends on
// the weight.
TEST(Merge, HalfTheStrengthIsHalfWay) {
  const Model model;
  for (const char* name : {"peft", "dora", "lokr"}) {
    const AdapterFile file = open_adapter(golden(name));
    const auto with = [&](double strength) {
      return values_of(*merged_source(model.source, changes_of(model, file, strength)),
                       "blocks.0.attn1.to_q.weight");
    };
    const auto none = values_of(*model.source, "blocks.0.attn1.to_q.weight"), half = with(0.5),
               whole = with(1);
    for (size_t i = 0; i < half.size(); ++i) ASSERT_NEAR(half[i], (none[i] + whole[i]) / 2, 2e-6) << name;
  }
}

// Several adapters of one tensor add up in the given order, and a merged source may be merged into again.
TEST(Merge, SeveralAdaptersOfOneTensorAddUp) {
  const Model model;
  const AdapterFile a = open_adapter(golden("peft")), b = open_adapter(golden("original.safetensors"));
  const auto of_a = changes_of(model, a, 0.5), of_b = changes_of(model, b, -0.25);
  auto both = of_a;
  both.insert(both.end(), of_b.begin(), of_b.end());
  const auto once = merged_source(model.source, both),
             twice = merged_source(merged_source(model.source, of_a), of_b);
  EXPECT_EQ(once->files().size(), 3u);
  for (const char* name : {"blocks.0.attn1.to_k.weight", "blocks.0.ffn.net.2.weight"})
    EXPECT_EQ(values_of(*once, name), values_of(*twice, name));
}

// Rows that are read alone have the bits that they have in the whole.
TEST(Merge, RowsAreThoseOfTheWhole) {
  const Model model;
  for (const char* name : {"peft", "dora", "loha", "lokr_both", "deltas.safetensors"}) {
    const AdapterFile file = open_adapter(golden(name));
    const auto merged = merged_source(model.source, changes_of(model, file, 0.3));
    for (const TensorSource::Entry& entry : merged->entries()) {
      if (!entry.derived) continue;
      const auto whole = values_of(*merged, entry.name);
      const int64_t rows = entry.dims[0], width = static_cast<int64_t>(whole.size()) / rows;
      for (int64_t row = 0; row < rows; row += 3) {
        const int64_t n = std::min<int64_t>(3, rows - row);
        std::vector<float> some(static_cast<size_t>(n * width), NAN);
        entry.derived->decode(row, Tensor(some.data(), DType::f32, {n, width}));
        ASSERT_TRUE(std::equal(some.begin(), some.end(), whole.begin() + row * width))
            << name << " " << entry.name;
      }
    }
  }
}

}  // namespace
}  // namespace tachy::test
