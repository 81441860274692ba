// The files of one GGUF. llama.cpp's tools split large ones into NAME-00001-of-00003.gguf and so on. Each
// part has some of the tensors, and the keys `split.no`, `split.count` and `split.tensors.count`. The first
// part has all other keys.
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

// Opens all parts in their order, whichever of them `path` names, or the single file if it is not split. All
// parts are in the same folder.
std::vector<GgufPart> open_gguf_parts(const std::filesystem::path& path, FileAccess access);

// Says whether a file's name marks it as a part after the first.
bool is_later_gguf_part(std::string_view name);

}  // namespace tachy
