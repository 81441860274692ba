// Fuzzes the JSON files of a model folder, one at a time; the other files are those of the golden tiny model.
// The first byte chooses the file. Opens the model and fills in a request as `generate` and `info` do.
#include "../fuzz_input.h"
#include "catalog/model_bundle.h"
#include "models/clip_vision/clip_preparation.h"
#include "models/clip_vision/clip_vision_config.h"
#include "models/umt5/umt5_config.h"
#include "models/wan/wan_config.h"
#include "models/wan_vae/vae_config.h"
#include "models/wav2vec2/wav2vec2_config.h"
#include "ops/implementations.h"
#include "resolve/resolve.h"
#include "weights/json_file.h"

using namespace tachy;
namespace fs = std::filesystem;

namespace {

constexpr const char* kFiles[] = {"model/model_index.json",
                                  "model/generation_config.json",
                                  "model/scheduler/scheduler_config.json",
                                  "model/transformer/config.json",
                                  "model/text_encoder/config.json",
                                  "model/vae/config.json",
                                  "original/config.json",
                                  "original/generation_config.json"};
constexpr size_t kCount = std::size(kFiles);

// Holds kCount copies of the model (links), in each of which one file is the fuzzer's.
struct Models {
  fuzz::MemoryFile file;
  fuzz::Folder folder;
  Models() {
    const fs::path golden = fs::path(TACHY_SOURCE_DIR) / "tests/golden/pipeline";
    for (size_t i = 0; i < kCount; ++i) {
      const fs::path root = folder.path() / std::to_string(i);
      for (const auto& item : fs::recursive_directory_iterator(golden)) {
        const fs::path to = root / fs::relative(item.path(), golden);
        fs::create_directories(item.is_directory() ? to : to.parent_path());
        if (!item.is_directory()) fs::create_symlink(item.path(), to);
      }
      fs::remove(root / kFiles[i]);
      fs::create_symlink(file.path(), root / kFiles[i]);
    }
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Models models;
  if (size < 1) return 0;
  const size_t which = data[0] % kCount;
  const std::string_view text = fuzz::view(data + 1, size - 1);
  fuzz::expect_error_or_result([&] {
    const nlohmann::json j = parse_json(text, "fuzz");
    fuzz::expect_error_or_result([&] { Umt5Config::from_json(j); });
    fuzz::expect_error_or_result([&] { WanConfig::from_json(j); });
    fuzz::expect_error_or_result([&] {
      const ClipVisionConfig c = ClipVisionConfig::from_json(j);
      if (c.head_dim() < 1 || c.tokens() < 2) std::abort();
    });
    fuzz::expect_error_or_result([&] {
      const ClipPreparation how = clip_preparation(j, 224);
      if (how.shortest_edge < 224) std::abort();
    });
    fuzz::expect_error_or_result([&] {
      const Wav2Vec2Config c = Wav2Vec2Config::from_json(j);
      if (c.head_dim() < 1 || c.vectors(c.least_samples()) != 1) std::abort();
    });
    fuzz::expect_error_or_result([&] {
      const VaeConfig c = VaeConfig::from_json(j);
      if (c.spatial_stride() < 1 || c.temporal_stride() < 1 || c.latent_frames(5) < 1) std::abort();
    });
  });
  models.file.set(text);
  fuzz::expect_error_or_result([&] {
    const ModelBundle model =
        ModelBundle::open(models.folder.path() / std::to_string(which) / (which < 6 ? "model" : "original"));
    if (model.size_multiple() < 1) std::abort();
    resolve(model, {.prompt = "a cat"});
  });
  return 0;
}
