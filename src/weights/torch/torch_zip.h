// Checkpoints of torch.save (.pth, .pt, .bin): a stored zip of data.pkl and one file per storage.
//
// data.pkl is read by a small interpreter that executes nothing: it knows the opcodes and the few globals
// that state dicts use (OrderedDict, _rebuild_tensor_v2, storage and dtype names); pickle_reader.h says what
// becomes of others. Tensors are views into the mapping; one whose strides are not contiguous is listed as
// unusable.
#pragma once

#include <filesystem>
#include <memory>

#include "weights/tensor_source.h"

namespace tachy {

// Finds the model inside dicts that hold it beside other things (torch_dict.h).
std::shared_ptr<TensorSource> open_torch_zip(const std::filesystem::path& path,
                                             FileAccess access = FileAccess::map);

}  // namespace tachy
