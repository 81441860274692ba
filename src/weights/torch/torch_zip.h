// Reads checkpoints of torch.save (.pth, .pt, .bin): a stored zip of data.pkl and one file per storage.
//
// A small interpreter reads data.pkl and executes nothing. It knows the opcodes and the few globals that
// state dicts use (OrderedDict, _rebuild_tensor_v2, names of storages and dtypes); pickle_reader.h says what
// happens to others. Tensors are views into the mapping. Those with non-contiguous strides are listed as
// unusable.
#pragma once

#include <filesystem>
#include <memory>

#include "weights/tensor_source.h"

namespace tachy {

// Finds the model even if it is inside dicts with other contents (torch_dict.h).
std::shared_ptr<TensorSource> open_torch_zip(const std::filesystem::path& path,
                                             FileAccess access = FileAccess::map);

}  // namespace tachy
