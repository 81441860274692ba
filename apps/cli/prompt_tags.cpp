#include "prompt_tags.h"

#include <algorithm>

#include "api/fields.h"
#include "base/log.h"
#include "report/info.h"

namespace tachy::cli {
namespace {

bool is_given(const GenerateOptions& o, const char* field) {
  const auto found = o.fields.find(field);
  return found != o.fields.end() &&
         std::visit([](const auto& value) { return value.has_value(); }, found->second);
}

}  // namespace

PromptTags::PromptTags(const GenerateOptions& options, const jobs::RunSettings& base)
    : options_(options), base_(base) {
  if (!options.lora_dir.empty()) folder_.emplace(options.lora_dir);
  if (is_given(options, "negative_prompt") &&
      base.request.negative_prompt->find("<lora:") != std::string::npos)
    warn(
        "`negative_prompt`: a <lora:…> there is read as text, as in stable-diffusion.cpp; tags belong in the "
        "prompt");
}

void PromptTags::take(VideoRequest& request) {
  TaggedPrompt tagged = take_lora_tags(request.prompt);
  if (tagged.tags.empty()) return;
  const LoraTag& first = tagged.tags.front();
  require(folder_.has_value(), "--lora-dir: a prompt has {}; give the folder to look for '{}' in", first.text,
          first.name);
  const bool asks = std::ranges::any_of(tagged.tags, [](const LoraTag& tag) { return !tag.high_noise; });
  if (!is_given(options_, "loras")) request.loras.clear();
  for (std::string& lora : folder_->find(tagged.tags, asks && two_experts()))
    request.loras.push_back(std::move(lora));
  request.prompt = std::move(tagged.prompt);
}

bool PromptTags::two_experts() {
  if (base_.model.empty()) return false;  // each model that ships has a single expert
  if (two_experts_) return *two_experts_;
  EngineOptions parts = options_.engine;
  for (const auto& [part, path] : base_.parts)
    parts.*std::get<std::string EngineOptions::*>(find_field(engine_fields(), part)->member) = path;
  const ModelInfo info = naming("`model`", [&] { return describe_model(base_.model, part_paths(parts)); });
  two_experts_ = std::ranges::any_of(info.components,
                                     [](const ComponentInfo& part) { return part.name == "transformer_2"; });
  return *two_experts_;
}

}  // namespace tachy::cli
