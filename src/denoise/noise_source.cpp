#include "denoise/noise_source.h"

#include "cuda/built.h"
#include "cuda/normals.h"
#include "tensor/transfer.h"

namespace tachy {

void NoiseSource::make_on(const Tensor& state) {
  if (!cuda::kernels_here() || state.data == device_state_.data) return;
  catch_up();
  on_device_ = false, device_state_ = state;
}

void NoiseSource::fill(const Tensor& to, const Stream& stream) {
  const auto n = static_cast<size_t>(to.numel());
  // Fewer than 16 values, or a remainder after blocks of 16, are drawn in another way.
  if (!can_make_on_device() || n == 0 || n % 16 != 0) return upload(next(n).data(), to, stream);
  settle();
  if (!ahead_.empty()) return upload(next(n).data(), to, stream);
  if constexpr (cuda::kBuilt) {
    if (!on_device_) {
      const std::vector<uint8_t> state = std::get<TorchCpuGenerator>(generator_).save();
      upload(state.data(), device_state_, stream);
      on_device_ = true;
    }
    cuda::queue_torch_normals(device_state_, to, stream);
    behind_ += n;
  }
}

}  // namespace tachy
