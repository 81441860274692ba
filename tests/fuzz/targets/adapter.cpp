// Fuzzes an adapter's file: its names, its metadata, and what it makes of a model's weights.
#include "../fuzz_input.h"
#include "adapters/match.h"
#include "adapters/merged.h"
#include "weights/names/rename.h"
#include "weights/safetensors.h"
#include "weights/scope.h"

using namespace tachy;

namespace {

struct Model {
  std::shared_ptr<TensorSource> source =
      open_safetensors(std::string(TACHY_SOURCE_DIR) + "/tests/golden/adapters/base.safetensors");
  TargetNames names{*source, dit_to_original};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static fuzz::MemoryFile file;
  static const Model model;
  file.set(fuzz::view(data, size));
  fuzz::expect_error_or_result([] {
    const AdapterFile adapter = open_adapter(file.path());
    const AdapterMatch match = match_adapter(adapter, {.transformers = {{"transformer", &model.names}}});
    std::vector<WeightedChange> changes;
    for (const auto& change : match.parts[0].changes) {
      change_norm_squared(*change);
      changes.push_back({change, 0.5, adapter.source});
    }
    const auto merged = merged_source(model.source, changes);
    const Scope scope(merged);
    for (const auto& entry : merged->entries()) {
      if (!entry.derived) continue;
      const Tensor t = scope.tensor(entry.name, std::span<const int64_t>(entry.dims));
      fuzz::touch(t.data, static_cast<uint64_t>(t.bytes()));
    }
  });
  return 0;
}
