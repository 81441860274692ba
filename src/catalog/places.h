// Where the models that ship with the project are looked for: first in $TACHY_MODEL_DIR, then beside the
// executable (in a build folder of the source tree, an installation, or a relocatable package).
#pragma once

#include <filesystem>
#include <vector>

namespace tachy {

std::vector<std::filesystem::path> model_places();

}  // namespace tachy
