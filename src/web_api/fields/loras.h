// The LoRA files that a server offers: those that lie in one folder, each by its name without the ending. A caller's
// text is compared with these names and never becomes a part of a path.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "web_api/fields/values.h"

namespace tachy::web_api {

struct OfferedLora {
  std::string name;  // the file's stem; with its ending where several files share the stem
  std::filesystem::path path;
  uint64_t bytes = 0;
};

// Lists the files by their names. An empty path means that there are none. Throws io if the folder cannot be read.
std::vector<OfferedLora> offered_loras(const std::filesystem::path& folder);

// Adapters of a request, in the order given.
struct ChosenLoras {
  std::vector<std::string> members;  // as VideoRequest::loras
  nlohmann::json given;              // [{name, strength, expert}], what was left out is left out
  std::string needs;                 // "name:strength@expert" of each, without paths
};

// Reads [{name, strength, expert}], a single object, a name, a list of names, or any of these as JSON in a text. Throws
// ApiError.
ChosenLoras choose_loras(const Value& value, const std::filesystem::path& folder);

}  // namespace tachy::web_api
