// Opens one file of weights, whose format its content tells. open_weights does this with a file that is
// complete by itself, and open_sharded with a shard.
#pragma once

#include <filesystem>
#include <memory>

#include "weights/tensor_source.h"

namespace tachy {

// Throws invalid_argument, naming the index, if the file's name says that it is one of several shards: it
// holds only a part of a model's tensors. Parts of a GGUF are accepted, because they find one another.
void refuse_lone_shard(const std::filesystem::path& path);

std::shared_ptr<TensorSource> open_by_content(const std::filesystem::path& path, FileAccess access);

}  // namespace tachy
