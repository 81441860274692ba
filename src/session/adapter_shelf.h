// Where a session keeps the adapters that are added to one transformer's products. The next job's take the place of
// the last one's, in the same memory: as far as they have the same layers and ranks, steps that were recorded stay as
// they are. Where only strengths differ, nothing else is written.
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
    std::string key;  // of all that they are but their strengths
    const nn::LinearRegistry& linears;
    std::string_view model;  // "transformer"
  };
  // The set of these, on the shelf in a computing session whose jobs keep their memory.
  const nn::AdapterSet& put(const Wanted& wanted, bool keeps, Stream& stream);
  uint64_t bytes() const { return bytes_; }  // of the set
  // Between jobs: of what stays.
  uint64_t kept_bytes() const { return buffers_.bytes(); }
  // After a job: the set stays where its memory does.
  void release();
  void clear();

 private:
  BufferShelf buffers_;
  std::shared_ptr<const void> memory_;  // of a set that is not kept, or beside a GPU
  std::unique_ptr<nn::AdapterSet> set_;
  std::string key_;
  bool kept_ = false;
  uint64_t bytes_ = 0;
};

}  // namespace tachy
