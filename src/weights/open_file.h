// A file of weights told by its content: what open_weights does with a file that is one by itself, and open_sharded with
// a shard.
#pragma once

#include <filesystem>
#include <memory>

#include "weights/tensor_source.h"

namespace tachy {

std::shared_ptr<TensorSource> open_by_content(const std::filesystem::path& path, FileAccess access);

}  // namespace tachy
