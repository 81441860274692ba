// Opens one file of weights, whose content tells its format. open_weights does this with a complete file, and
// open_sharded with a shard.
#pragma once

#include <filesystem>
#include <memory>

#include "weights/tensor_source.h"

namespace tachy {

// Throws invalid_argument, with the index's name, if the file's name says that it is one of several shards,
// and so contains only a part of a model's tensors. Parts of a GGUF are accepted, because they find one
// another.
void refuse_lone_shard(const std::filesystem::path& path);

std::shared_ptr<TensorSource> open_by_content(const std::filesystem::path& path, FileAccess access);

}  // namespace tachy
