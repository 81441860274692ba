// Buffers that outlive their users. The next user that asks for the same sizes in the same order gets the
// same addresses, which a captured graph needs.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tensor/memory.h"

namespace tachy {

class BufferShelf {
 public:
  // The next user begins with the first Buffer again.
  void rewind() { next_ = 0; }

  // Returns the next Buffer: the existing one if it has this size, otherwise a new one that replaces it.
  const Buffer& take(size_t bytes, DeviceMemory* device) {
    if (next_ == places_.size()) places_.emplace_back();
    Place& place = places_[next_];
    if (place.buffer.size() != bytes || !place.buffer.data()) {
      place = Place();  // frees the old Buffer before the new one is allocated
      place.buffer = Buffer(bytes, device);
    }
    place.before = std::exchange(place.name, {});
    ++next_;
    return place.buffer;
  }

  // Says whether the Buffer at this address still holds what an earlier user named like this. If not, its present user
  // must fill it, and it has the name from now on.
  bool holds(const void* data, const std::string& name) {
    const auto at = std::ranges::find_if(places_, [&](const Place& p) { return p.buffer.data() == data; });
    if (at == places_.end()) return false;
    at->name = name;
    return at->before == name;
  }

  void clear() { places_.clear(), next_ = 0; }
  size_t bytes() const {
    size_t total = 0;
    for (const Place& p : places_)
      total += p.buffer.data() ? align_up(std::max<size_t>(p.buffer.size(), 1)) : 0;
    return total;
  }

 private:
  struct Place {
    Buffer buffer;
    std::string name, before;  // of its contents, for its present and for its last user; empty: it gave none
  };
  std::vector<Place> places_;
  size_t next_ = 0;
};

}  // namespace tachy
