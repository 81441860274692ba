// The files of one GGUF. llama.cpp's tools split large ones: NAME-00001-of-00003.gguf and so on, each with some of the
// tensors and `split.no`, `split.count` and `split.tensors.count`; the other keys are in the first.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "weights/gguf/gguf_header.h"
#include "weights/mapped_file.h"

namespace tachy {

struct GgufPart {
  std::shared_ptr<const MappedFile> file;
  GgufHeader header;
};

// All parts in their order, whichever `path` is; one where nothing is split. The others lie in its folder.
std::vector<GgufPart> open_gguf_parts(const std::filesystem::path& path, FileAccess access);

// Whether a file's name says that it is a part behind the first.
bool is_later_gguf_part(std::string_view name);

}  // namespace tachy
