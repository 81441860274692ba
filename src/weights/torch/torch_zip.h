// Checkpoints of torch.save (.pth, .pt, .bin): a stored zip of data.pkl and one file per storage.
//
// data.pkl is read by a small interpreter that executes nothing: it knows the opcodes
// and the few globals that state dicts use (OrderedDict, _rebuild_tensor_v2, storage
// and dtype names); any other global is an error that names it. Tensors are views
// into the mapping; one whose strides are not contiguous is listed as unusable.
#pragma once

#include <filesystem>
#include <memory>

#include "weights/tensor_source.h"

namespace tachy {

// Unwraps a top dict that holds its tensors under state_dict, model_state, model, generator or gen_model.
std::shared_ptr<TensorSource> open_torch_zip(const std::filesystem::path& path,
                                             FileAccess access = FileAccess::map);

}  // namespace tachy
