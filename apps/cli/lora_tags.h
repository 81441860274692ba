// Tags in prompts that name LoRAs, by the rules of stable-diffusion.cpp:
//
//   a cat<lora:fur:0.8><lora:|high_noise|light:1>
//
// A tag is <lora:NAME:WEIGHT>; `|high_noise|` before the name means the high-noise expert of a model of two, and a
// tag without it the low-noise one. The weights of a LoRA that is named twice are added up. The tag itself is no
// text for the model.
//
// Tags are a habit of command lines: those of `--prompt` and `--prompt-file` are looked for, and no other text is.
// A name is one that a folder lists, so that no text of a prompt becomes a path.
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
  std::string text;  // as it is written
};

struct TaggedPrompt {
  std::string prompt;  // without the tags
  std::vector<LoraTag> tags;
};

// Throws invalid_argument for what begins like a tag and is none, which would be read as text otherwise.
TaggedPrompt take_lora_tags(std::string_view prompt);

// Throws invalid_argument where there is a tag: whose prompt takes none is in `what`.
void refuse_lora_tags(std::string_view prompt, std::string_view what);

// The LoRAs that lie in a folder, by the stems of their files.
class LoraFolder {
 public:
  explicit LoraFolder(const std::filesystem::path& folder);  // throws not_found or io

  // Returns what VideoRequest::loras has for these tags. two_experts: whether the model has two. Throws not_found with
  // near names, and invalid_argument where a stem is that of two files.
  std::vector<std::string> find(const std::vector<LoraTag>& tags, bool two_experts) const;

 private:
  std::filesystem::path file_of(const LoraTag& tag) const;

  std::filesystem::path folder_;
  std::vector<std::string> files_;  // names, sorted
};

}  // namespace tachy::cli
