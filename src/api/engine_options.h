// This makes what EngineOptions come to: a Model, open on its device, for an Engine or a World alone or for several of them.
#pragma once

#include <filesystem>
#include <memory>

#include "api/tachyscope.h"
#include "session/model.h"

namespace tachy {

// Throws invalid_argument for options that may not be, before anything is opened.
std::shared_ptr<Model> open_model(const std::filesystem::path& model, const EngineOptions& options);

}  // namespace tachy
