// A store whose tensors are copies of another device's (ParamStore::Options::twin).
#include <algorithm>
#include <cstring>
#include <utility>

#include "nn/params.h"

namespace tachy::nn {

// A copy has one Buffer. Where several GPUs reach one another's memory, each allocation is made known to all of them,
// which takes longer than to copy what most tensors hold.
void* ParamStore::place_of_copy(size_t bytes) {
  if (buffers_.empty()) {
    size_t all = 0;
    for (const auto& tensor : options_.twin->tensors) all += align_up(std::max<size_t>(tensor.size(), 1));
    buffers_.emplace_back(all, stream_.memory);
  }
  const size_t taken = align_up(std::max<size_t>(bytes, 1)), first = std::exchange(copied_, copied_ + taken);
  check(copied_ <= buffers_.front().size(), ErrorCode::internal, "params: {} bytes are a copy of {}", copied_,
        buffers_.front().size());
  return static_cast<char*>(buffers_.front().data()) + first;
}

void ParamStore::copy_twin() {
  const std::vector<std::span<char>>& from = options_.twin->tensors;
  check(from.size() == tensors_.size() && options_.streamed == 0 && !options_.shelf, ErrorCode::internal,
        "params: {} tensors are a copy of {}", tensors_.size(), from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    check(from[i].size() == tensors_[i].size(), ErrorCode::internal, "params: {} bytes are a copy of {}",
          tensors_[i].size(), from[i].size());
    if (stream_.memory)
      stream_.memory->copy(tensors_[i].data(), from[i].data(), from[i].size());
    else
      std::memcpy(tensors_[i].data(), from[i].data(), from[i].size());
  }
}

}  // namespace tachy::nn
