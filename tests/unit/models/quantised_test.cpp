// Tests quantised transformers: float32 computes with the float32 values that a file stands for, even after
// adapters are merged into them; and in any arithmetic the bits are those of the same model with weights that
// were dequantised before.
#include <gtest/gtest.h>

#include <deque>

#include "adapters/match.h"
#include "adapters/merged.h"
#include "wan_dit_case.h"

namespace tachy {
namespace {

using Case = test::WanDitCase;

class Quantised : public testing::TestWithParam<std::string> {};

// Holds the values of a source as a float32 file would.
struct Dequantised {
  explicit Dequantised(const TensorSource& from) {
    std::vector<TensorSource::Entry> entries(from.entries().begin(), from.entries().end());
    for (TensorSource::Entry& entry : entries) {
      if (!entry.derived) continue;
      const Tensor shape(nullptr, DType::f32, entry.dims);
      auto& made = values.emplace_back(static_cast<size_t>(shape.numel()));
      decode_values(*entry.derived, shape.numel() / shape.dim(0), 0,
                    Tensor(made.data(), DType::f32, {shape.numel()}));
      entry.dtype = DType::f32, entry.data = made.data(), entry.bytes = made.size() * sizeof(float);
      entry.derived = nullptr;
    }
    source = std::make_shared<TensorSource>(std::move(entries), from.files(), from.metadata());
  }
  std::deque<std::vector<float>> values;
  std::shared_ptr<TensorSource> source;
};

std::shared_ptr<TensorSource> with_adapter(const Case& c, double strength) {
  const TargetNames names(*c.weights, dit_to_original);
  const AdapterFile file = open_adapter(test::golden_path(c.name + "_lora.safetensors"));
  const AdapterMatch match = match_adapter(file, {.transformers = {{"transformer", &names}}});
  EXPECT_TRUE(match.unmatched.empty());
  std::vector<WeightedChange> changes;
  for (const auto& change : match.parts.at(0).changes) changes.push_back({change, strength, file.source});
  return merged_source(c.weights, changes);
}

TEST_P(Quantised, WithAnAdapterMergedWithinTheBound) {
  Case c(GetParam());
  c.weights = with_adapter(c, 0.5), c.sample = "sample_lora";
  for (const bool pack : {true, false}) {
    test::PlannedRun run{.pack = pack};
    auto y = c.run(run);
    EXPECT_LE(c.error(y), c.golden.bound()) << "pack " << pack;
    EXPECT_EQ(run.planned_store, run.store_bytes);
    EXPECT_EQ(run.arena_bytes, run.arena_peak);
  }
}

TEST_P(Quantised, TheBitsOfAFileThatWasDequantisedBefore) {
  Case c(GetParam());
  const auto stored = c.weights, merged = with_adapter(c, 0.5);
  for (const auto& source : {stored, merged}) {
    const Dequantised before(*source);
    for (const Precision& precision :
         {Precision{}, Precision{.compute = Compute::bf16}, Precision{.definitions = true}})
      for (const bool pack : {true, false}) {
        test::PlannedRun run{.pack = pack, .precision = precision};
        c.weights = source;
        const auto y = c.run(run);
        c.weights = before.source;
        EXPECT_EQ(y, c.run(run)) << "pack " << pack << ", bf16 " << (precision.compute == Compute::bf16)
                                 << ", definitions " << precision.definitions;
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, Quantised, testing::Values("quantised/dit_gguf", "quantised/dit_scaled"));

}  // namespace
}  // namespace tachy
