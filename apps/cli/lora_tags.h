// Tags in prompts that name LoRAs, by the rules of stable-diffusion.cpp:
//
//   a cat<lora:fur:0.8><lora:|high_noise|light:1>
//
// A tag is <lora:NAME:WEIGHT>. `|high_noise|` before the name means the high-noise expert of a model with
// two; a tag without it means the low-noise one. If a LoRA is named twice, its weights are added up. The
// model does not see the tag.
//
// Tags are a habit of command lines: they are only looked for in `--prompt` and `--prompt-file`. A name must
// be one that the folder lists, so that no text in a prompt becomes a path.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tachy::cli {

struct LoraTag {
  std::string name;
  double weight = 1;
  bool high_noise = false;
  std::string text;  // the tag as it was written
};

struct TaggedPrompt {
  std::string prompt;  // the prompt without the tags
  std::vector<LoraTag> tags;
};

// Throws invalid_argument for something that begins like a tag but is not one, because it would otherwise be
// read as text.
TaggedPrompt take_lora_tags(std::string_view prompt);

// Throws invalid_argument if there is a tag; `what` says which prompt may not have tags.
void refuse_lora_tags(std::string_view prompt, std::string_view what);

// The LoRAs in a folder, found by the names of their files without the ending.
class LoraFolder {
 public:
  explicit LoraFolder(const std::filesystem::path& folder);  // throws not_found or io

  // Returns the entries of VideoRequest::loras for these tags. two_experts says whether the model has two.
  // Throws not_found with similar names, and invalid_argument if two files have the same name before the
  // ending.
  std::vector<std::string> find(const std::vector<LoraTag>& tags, bool two_experts) const;

 private:
  std::filesystem::path file_of(const LoraTag& tag) const;

  std::filesystem::path folder_;
  std::vector<std::string> files_;  // names, sorted
};

}  // namespace tachy::cli
