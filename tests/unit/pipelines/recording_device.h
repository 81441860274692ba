// A device on the host whose steps can be recorded, like a GPU's in graphs. A recording replays the calls
// that it was given, with the tensors of that time: if one of these has moved since, the results differ.
#pragma once

#include "cuda/graph.h"
#include "host_device.h"

namespace tachy::test {

class RecordingDevice final : public HostDevice, public cuda::GraphMaker {
 public:
  using HostDevice::HostDevice;
  std::atomic<int> launches{0};

  std::unique_ptr<cuda::Graph> capture(const std::function<void()>& work) override {
    return std::make_unique<Recording>(work, launches);
  }

 private:
  class Recording final : public cuda::Graph {
   public:
    Recording(std::function<void()> work, std::atomic<int>& launches)
        : work_(std::move(work)), launches_(launches) {}
    void launch() override {
      ++launches_;
      work_();
    }
    size_t nodes() const override { return 1; }
    std::vector<std::string> names() const override { return {"recording"}; }

   private:
    std::function<void()> work_;
    std::atomic<int>& launches_;
  };
};

}  // namespace tachy::test
