#include "catalog/places.h"

#include "base/env.h"
#include "base/error.h"
#include "base/os/library.h"
#include "base/os/process.h"

namespace tachy {

std::vector<std::filesystem::path> model_places() {
  std::vector<std::filesystem::path> places;
  if (const std::string dir = env_string("TACHY_MODEL_DIR", ""); !dir.empty()) {
    std::error_code ignored;
    check(std::filesystem::is_directory(dir, ignored), ErrorCode::not_found,
          "TACHY_MODEL_DIR: {} is not a folder; name the folder in which the models lie, or give `model`",
          dir);
    places.emplace_back(dir);
  }
  // Packages of Python: tachyscope/bin/tachyscope and tachyscope/libtachyscope_engine.so, which tachyscope-models lies beside.
  const auto here = os::Library::file_of(reinterpret_cast<const void*>(&model_places)).parent_path();
  for (const auto& package : {here, here.parent_path()})
    if (package.filename() == "tachyscope") {
      places.push_back(package / "share/tachyscope/models");
      places.push_back(package.parent_path() / "tachyscope_models/models");
    }
  std::error_code ec;
  const auto executable = os::executable_path(ec);
  if (ec) return places;
  const auto folder = executable.parent_path();
  places.push_back(folder / "../models");                   // for a build folder inside the source tree
  places.push_back(folder / "../share/tachyscope/models");  // for an installation
  if (folder.parent_path().filename() == "libexec")         // for a program that an installed one starts
    places.push_back(folder / "../../share/tachyscope/models");
  places.push_back(folder / "models");  // for a relocatable package
  return places;
}

}  // namespace tachy
