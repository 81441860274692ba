#include "session/adapter_shelf.h"

namespace tachy {

const nn::AdapterSet& AdapterShelf::put(const Wanted& wanted, bool keeps, Stream& stream) {
  if (set_ && kept_ && keeps && wanted.key == key_ && set_->made_for(wanted.linears)) {
    std::vector<float> scales;
    for (const nn::LowRank& adapter : wanted.adapters) scales.push_back(adapter.scale);
    set_->set_scales(scales, stream);
    return *set_;
  }
  // If the next lines throw, half a set of adapters must not be taken for a whole one.
  set_.reset(), memory_.reset(), key_.clear();
  buffers_.rewind();
  if (!keeps) buffers_.clear();
  const MemoryLabel label("adapters");
  nn::ParamStore store({.shelf = keeps ? &buffers_ : nullptr}, stream);
  auto made = std::make_unique<nn::AdapterSet>(wanted.adapters, wanted.linears, wanted.model, store);
  memory_ = store.keep(), bytes_ = store.bytes();
  set_ = std::move(made), key_ = wanted.key, kept_ = keeps;
  return *set_;
}

void AdapterShelf::release() {
  if (!kept_) clear();
}

void AdapterShelf::clear() {
  set_.reset(), memory_.reset(), key_.clear(), buffers_.clear();
  kept_ = false, bytes_ = 0;
}

}  // namespace tachy
