#include "api/engine_options.h"

#include "api/fields.h"
#include "base/isa.h"
#include "base/log.h"
#include "cuda/open_device.h"
#include "cuda/peers.h"

namespace tachy {
namespace {

// With "read", the files were read at the start and are then used as with "auto".
WeightMode weight_mode(const std::string& name) {
  return name == "packed"   ? WeightMode::packed
         : name == "mapped" ? WeightMode::mapped
                            : WeightMode::automatic;
}

std::string device_of(const EngineOptions& o) {
  return o.gpus.empty() ? o.device : first_of_gpus(o.gpus, o.device);
}

ModelOptions model_options(const EngineOptions& o) {
  const std::vector<int> gpus = o.gpus.empty() ? std::vector<int>() : cuda::choose_gpus(o.gpus, o.device);
  return {.threads = o.threads,
          .ranks = o.ranks,
          .gpus = gpus,
          .parallel = parallel_of(o, static_cast<int>(gpus.size())),
          .waking = gpus.size() > 1 ? cuda::wake_peers(gpus) : nullptr,
          .weights = weight_mode(o.weights),
          .keep_loaded = o.keep_loaded,
          .device = device_of(o),
          .graphs = o.graphs,
          .arena = o.arena,
          .max_vram = o.max_vram,
          .shares_vram = o.shares_vram,
          .waits_for_worlds = o.waits_for_worlds,
          .text_cache = o.text_cache,
          .verify_upload = o.verify_upload,
          .idle_seconds = static_cast<double>(o.idle_seconds),
          .crew = o.crew};
}

}  // namespace

std::shared_ptr<Model> open_model(const std::filesystem::path& model, const EngineOptions& options) {
  isa_asked(), check_log_topics();
  check_fields(options), check_ranks(options);
  const FileAccess access = options.weights == "read" ? FileAccess::read : FileAccess::map;
  ModelOptions how = model_options(options);  // several GPUs wake while the files are opened
  auto opened =
      std::make_shared<Model>(ModelBundle::open(model, access, part_paths(options)), std::move(how));
  // A process of several has found its device only now.
  require(options.max_vram == 0 || opened->options().device != "cpu",
          "`max_vram`: it limits a GPU's memory, and this run is on the CPU; leave it out, or choose "
          "`device` cuda");
  return opened;
}

}  // namespace tachy
