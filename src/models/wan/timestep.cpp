#include "models/wan/timestep.h"

#include <bit>
#include <cmath>
#include <vector>

namespace tachy {
namespace {

// exp(−ln(10000)·i/128) in float32, as torch 2.11 computes it (diffusers' get_timestep_embedding with 256
// channels). 85 of the 128 values are not correctly rounded, so they are stored as bits. They were made by
//   torch.exp(-math.log(10000) * torch.arange(0, 128, dtype=torch.float32) / 128)
constexpr uint32_t kDiffusersFrequencies[128] = {
#include "models/wan/sinusoid_table.inc"
};

std::vector<float> diffusers_frequencies(int64_t half) {
  std::vector<float> out(static_cast<size_t>(half));
  const auto log_base = static_cast<float>(-std::log(10000.0));
  for (int64_t i = 0; i < half; ++i)
    out[static_cast<size_t>(i)] = half == 128
                                      ? std::bit_cast<float>(kDiffusersFrequencies[i])
                                      : std::exp(log_base * static_cast<float>(i) / static_cast<float>(half));
  return out;
}

}  // namespace

void fill_sinusoid(std::span<const double> timesteps, Sinusoid kind, const Tensor& out) {
  const int64_t half = out.dim(1) / 2;
  const auto frequencies = diffusers_frequencies(half);
  auto* row = out.as<float>();
  for (double t : timesteps) {
    for (int64_t i = 0; i < half; ++i) {
      // In diffusers the angle is a rounded float32 product, whose cosine is taken.
      const double angle =
          kind == Sinusoid::diffusers
              ? static_cast<double>(static_cast<float>(t) * frequencies[static_cast<size_t>(i)])
              : t * std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half));
      row[i] = static_cast<float>(std::cos(angle));
      row[half + i] = static_cast<float>(std::sin(angle));
    }
    row += 2 * half;
  }
}

}  // namespace tachy
