// The words that call up a LoRA, and what is known of it, for whoever chooses one: from the file's own metadata, and
// from files beside it that people or other programs wrote (NAME.json, NAME.txt).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "web_api/fields/loras.h"

namespace tachy::web_api {

struct LoraNotes {
  std::string title, notes;
  std::string base;                // the model that it was trained for, as its trainer spells it
  std::vector<std::string> words;  // those that a prompt should have
  std::optional<double> strength;  // the one that its maker recommends
  bool has_cover = false;          // a picture in the file itself (lora_picture.h)
};

// Never throws for what the files hold: what cannot be read counts as not there. Files are read again only when they
// have changed. Several threads may call it.
LoraNotes notes_of(const OfferedLora& lora);

}  // namespace tachy::web_api
