// The LoRAs that the prompts of a `tachyscope generate` name in tags (lora_tags.h), as part of their requests.
#pragma once

#include <optional>

#include "generate_options.h"
#include "jobs/settings.h"
#include "lora_tags.h"

namespace tachy::cli {

class PromptTags {
 public:
  // base: what all prompts share. Throws what LoraFolder does. Both outlive this.
  PromptTags(const GenerateOptions& options, const jobs::RunSettings& base);

  // Takes the tags out of a prompt that the command line or its file gave, and puts their LoRAs behind those of
  // --lora; in place of those of --from, which its prompt named. Throws invalid_argument without a folder.
  void take(VideoRequest& request);

 private:
  bool two_experts();

  const GenerateOptions& options_;
  const jobs::RunSettings& base_;
  std::optional<LoraFolder> folder_;
  std::optional<bool> two_experts_;  // of the model; looked up for the first tag whose meaning it decides
};

}  // namespace tachy::cli
