#include "workflows/model_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tachy::workflows {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> folders_of(FileKind kind) {
  switch (kind) {
    case FileKind::diffusion_model:
      return {"unet", "diffusion_models"};
    case FileKind::text_encoder:
      return {"text_encoders", "clip"};
    case FileKind::vae:
      return {"vae"};
    case FileKind::clip_vision:
      return {"clip_vision"};
    case FileKind::lora:
      return {"loras"};
    case FileKind::picture:
    case FileKind::video:
      break;
  }
  return {};
}

// Returns a name that cannot lead out of the folder that it is looked up in.
fs::path inner_path(const Node& node, const std::string& input, std::string name) {
  std::ranges::replace(name, '\\', '/');
  const fs::path path(name);
  const bool drive = name.size() > 1 && name[1] == ':';
  const bool leaves = path.is_absolute() || drive || std::ranges::find(path, fs::path("..")) != path.end();
  if (name.empty() || name.find('\0') != name.npos || leaves || !path.has_filename())
    refuse(node, input, fmt::format("expected a file's name within its folder, got '{}'", name));
  return path;
}

// ComfyUI marks a picture's folder by an ending; without one it is that of inputs.
std::string without_mark(const Node& node, const std::string& input, std::string name) {
  constexpr std::string_view kInput = " [input]";
  if (name.ends_with(kInput)) name.resize(name.size() - kInput.size());
  for (const char* other : {" [output]", " [temp]"})
    if (name.ends_with(other))
      refuse(node, input, fmt::format("only files of the input folder are read, got '{}'", name));
  return name;
}

}  // namespace

FindFile files_in(const fs::path& models, const fs::path& input_folder) {
  return [=](const Node& node, const std::string& input, const std::string& name, FileKind kind) {
    const bool given = kind == FileKind::picture || kind == FileKind::video;
    const fs::path path = inner_path(node, input, given ? without_mark(node, input, name) : name);
    std::vector<std::string> tried;
    const auto found = [&](const fs::path& folder) {
      tried.push_back(folder.string());
      std::error_code ec;
      return fs::is_regular_file(folder / path, ec);
    };
    if (given && found(input_folder)) return (input_folder / path).string();
    for (const std::string& folder : folders_of(kind))
      if (found(models / folder)) return (models / folder / path).string();
    if (!given && found(models)) return (models / path).string();
    fail(ErrorCode::not_found, "node {} {}, {}: there is no file {} in {}", node.id, node.type, input,
         path.string(), fmt::join(tried, " or "));
  };
}

}  // namespace tachy::workflows
