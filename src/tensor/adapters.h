// What a run adds to the products of a model's linear layers, as its stream carries it: nn/adapter_set.h makes
// it, and only nn/ looks inside. The model stays as it is for whoever else uses it.
#pragma once

#include <atomic>
#include <cstdint>

namespace tachy {

class Adapters {
 public:
  Adapters(const Adapters&) = delete;
  Adapters& operator=(const Adapters&) = delete;
  // No other set of this process has had it, whereas addresses come again.
  uint64_t serial() const { return serial_; }

 protected:
  Adapters() = default;
  ~Adapters() = default;

 private:
  inline static std::atomic<uint64_t> last_{0};
  uint64_t serial_ = ++last_;
};

}  // namespace tachy
