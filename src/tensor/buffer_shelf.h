// Buffers that outlive their users. The next user that asks for the same sizes in the same order gets the
// same addresses, which a captured graph needs.
#pragma once

#include <vector>

#include "tensor/memory.h"

namespace tachy {

class BufferShelf {
 public:
  // The next user begins with the first Buffer again.
  void rewind() { next_ = 0; }

  // Returns the next Buffer: the existing one if it has this size, otherwise a new one that replaces it.
  const Buffer& take(size_t bytes, DeviceMemory* device) {
    if (next_ == buffers_.size()) buffers_.emplace_back();
    Buffer& place = buffers_[next_];
    if (place.size() != bytes || !place.data()) {
      place = Buffer();  // frees the old Buffer before the new one is allocated
      place = Buffer(bytes, device);
    }
    ++next_;
    return place;
  }

  void clear() { buffers_.clear(), next_ = 0; }
  size_t bytes() const {
    size_t total = 0;
    for (const Buffer& b : buffers_) total += b.data() ? align_up(b.size() ? b.size() : 1) : 0;
    return total;
  }

 private:
  std::vector<Buffer> buffers_;
  size_t next_ = 0;
};

}  // namespace tachy
