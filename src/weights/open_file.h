// A file of weights told by its content: what open_weights does with a file that is one by itself, and open_sharded with
// a shard.
#pragma once

#include <filesystem>
#include <memory>

#include "weights/tensor_source.h"

namespace tachy {

// Throws invalid_argument, naming the index, where a file is one of several shards by its name: its tensors are a part of
// a model's. GGUF's parts find one another, and are not meant.
void refuse_lone_shard(const std::filesystem::path& path);

std::shared_ptr<TensorSource> open_by_content(const std::filesystem::path& path, FileAccess access);

}  // namespace tachy
