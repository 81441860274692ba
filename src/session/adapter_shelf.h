// The place where a session keeps the adapters that are added to one transformer's products. The next job's
// adapters replace the last one's in the same memory: if their layers and ranks are the same, recorded steps
// stay valid. If only the strengths differ, nothing else is written.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "nn/adapter_set.h"
#include "tensor/buffer_shelf.h"

namespace tachy {

class AdapterShelf {
 public:
  struct Wanted {
    std::span<const nn::LowRank> adapters;
    std::string key;  // identifies all but the strengths
    const nn::LinearRegistry& linears;
    std::string_view model;  // "transformer"
  };
  // Returns this set, on the shelf if the session computes and its jobs keep their memory.
  const nn::AdapterSet& put(const Wanted& wanted, bool keeps, Stream& stream);
  uint64_t bytes() const { return bytes_; }  // size of the set
  // Bytes that stay between jobs.
  uint64_t kept_bytes() const { return buffers_.bytes(); }
  // Called after a job: the set stays if its memory does.
  void release();
  void clear();

 private:
  BufferShelf buffers_;
  std::shared_ptr<const void> memory_;  // owns a set that is not kept, and what lies on the host beside a GPU
  std::unique_ptr<nn::AdapterSet> set_;
  std::string key_;
  bool kept_ = false;
  uint64_t bytes_ = 0;
};

}  // namespace tachy
