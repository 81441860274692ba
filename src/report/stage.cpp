#include "report/stage.h"

#include <functional>
#include <map>
#include <set>

#include "cuda/open_device.h"
#include "report/stage_runners.h"

namespace tachy {
namespace {

using Runner = void (*)(const StageRequest&, StageIo&);
const std::map<std::string, Runner, std::less<>>& runners() {
  static const std::map<std::string, Runner, std::less<>> map = {{"tokenize", run_tokenize},
                                                                 {"text-encoder", run_text_encoder},
                                                                 {"transformer", run_transformer},
                                                                 {"vae-encode", run_vae_encode},
                                                                 {"vae-decode", run_vae_decode},
                                                                 {"sampler", run_sampler},
                                                                 {"noise", run_noise},
                                                                 {"fit-image", run_fit_image},
                                                                 {"image-encoder", run_image_encoder},
                                                                 {"audio-encoder", run_audio_encoder},
                                                                 {"rollout", run_rollout},
                                                                 {"image-processor", run_image_processor}};
  return map;
}

}  // namespace

std::vector<std::string> stage_names() {
  std::vector<std::string> names;
  for (const auto& [name, runner] : runners()) names.push_back(name);
  return names;
}

void run_stage(const StageRequest& request) {
  const auto it = runners().find(request.name);
  if (it == runners().end()) {
    std::string known;
    for (const auto& name : stage_names()) known += (known.empty() ? "" : ", ") + name;
    fail(ErrorCode::invalid_argument, "stage: there is no stage '{}'; expected one of {}", request.name,
         known);
  }
  static const std::set<std::string_view> without_model = {"sampler", "noise", "fit-image",
                                                           "image-processor"};
  const bool needs_model = !without_model.contains(request.name);
  require(!needs_model || request.opened || !request.model.empty(), "stage {}: `model` is needed",
          request.name);
  require(!request.out.empty(), "stage {}: `out` is needed", request.name);
  cuda::check_device_name(request.device);
  StageIo io(request);
  it->second(request, io);
  io.write();
}

}  // namespace tachy
