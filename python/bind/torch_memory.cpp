#include "bind/torch_memory.h"

#include "base/error.h"
#include "bind/torch_abi.h"
#include "cuda/current_device.h"

namespace tachy::python {
namespace {

class TorchMemory : public DeviceMemory {
 public:
  explicit TorchMemory(cuda::Gpu& gpu) : gpu_(gpu) {}
  Device device() const override { return gpu_.device(); }

  void* allocate(size_t bytes) override {
    const cuda::CurrentDevice current(&gpu_);
    void* p = nullptr;
    check(torch_abi::functions().cuda_alloc(bytes, &p) == 0, ErrorCode::out_of_memory,
          "torch's allocator has no {} bytes of scratch on {}", bytes, device_name(device()));
    live_ += bytes;
    peak_ = std::max(peak_, live_);
    return p;
  }
  void release(void* p, size_t bytes) noexcept override {
    const cuda::CurrentDevice current(&gpu_);
    torch_abi::functions().cuda_free(p);
    live_ -= bytes;
  }

  void upload(void* to, const void* from, size_t bytes) override { gpu_.upload(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { gpu_.download(to, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override { gpu_.copy(to, from, bytes); }
  void fill(void* to, int byte, size_t bytes) override { gpu_.fill(to, byte, bytes); }
  void synchronize() override { gpu_.synchronize(); }
  size_t live_bytes() const override { return live_; }
  size_t peak_bytes() const override { return peak_; }
  void reset_peak() override { peak_ = live_; }

 private:
  cuda::Gpu& gpu_;
  size_t live_ = 0, peak_ = 0;
};

}  // namespace

std::unique_ptr<DeviceMemory> torch_memory(cuda::Gpu& gpu) { return std::make_unique<TorchMemory>(gpu); }

}  // namespace tachy::python
