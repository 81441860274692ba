// Turns EngineOptions into a Model that is open on its device, for one Engine or World or for several of
// them.
#pragma once

#include <filesystem>
#include <memory>

#include "api/tachyscope.h"
#include "session/model.h"

namespace tachy {

// Throws invalid_argument for options that are not allowed, before anything is opened.
std::shared_ptr<Model> open_model(const std::filesystem::path& model, const EngineOptions& options);

}  // namespace tachy
