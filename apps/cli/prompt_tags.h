// The LoRAs that the prompts of a `tachyscope generate` name in tags (lora_tags.h), added to their requests.
#pragma once

#include <optional>

#include "generate_options.h"
#include "jobs/settings.h"
#include "lora_tags.h"

namespace tachy::cli {

class PromptTags {
 public:
  // `base` has the settings that all prompts share. Throws like LoraFolder. Both arguments must outlive this
  // object.
  PromptTags(const GenerateOptions& options, const jobs::RunSettings& base);

  // Removes the tags from a prompt of the command line or its file, and appends their LoRAs to those of
  // --lora. They replace the LoRAs of --from, which the earlier prompt named. Throws invalid_argument without
  // a folder.
  void take(VideoRequest& request);

 private:
  bool two_experts();

  const GenerateOptions& options_;
  const jobs::RunSettings& base_;
  std::optional<LoraFolder> folder_;
  // Whether the model has two experts; determined for the first tag whose meaning depends on it.
  std::optional<bool> two_experts_;
};

}  // namespace tachy::cli
