// The places where the models that ship with the project may be: $TACHY_MODEL_DIR, then beside the executable
// (a build folder in the source tree, an installation, a relocatable package).
#pragma once

#include <filesystem>
#include <vector>

namespace tachy {

std::vector<std::filesystem::path> model_places();

}  // namespace tachy
