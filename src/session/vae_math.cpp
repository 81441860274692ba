#include "session/vae_math.h"

#include <algorithm>

#include "ops/scaled_conv3d/scaled_conv3d.h"
#include "request/request_fields.h"

namespace tachy {
namespace {

// A level's residual blocks have as many channels going in as coming out, except for the first one. Some
// blocks take codes if these counts are multiples of 32 (wan_vae's Loader::in_codes).
bool takes_codes(const VaeConfig& config) {
  return std::ranges::any_of(config.dim_mult, [&](int64_t times) {
    return config.base_dim * times % 32 == 0 || config.decoder_base_dim * times % 32 == 0;
  });
}

}  // namespace

Products vae_products(std::string_view vae_math, const VaeConfig& config, const Precision& precision,
                      cuda::Gpu* gpu) {
  check_choice("vae_math", vae_math, vae_math_choices());
  const bool fp8 = vae_math == "fp8";
  if (!fp8 && vae_math != "int8") return Products::as_activations;
  require(!precision.definitions,
          "`vae_math`: level none runs the definitions, which compute in f32; leave {} out", vae_math);
  require(!gpu || precision.activation == DType::bf16,
          "`vae_math`: {} needs activations in bf16 on a GPU, and `dtype` is {}", vae_math,
          dtype_name(precision.activation));
  check(takes_codes(config), ErrorCode::unsupported,
        "`vae_math`: {} needs convolutions of 32 channels or a multiple, and this model's VAE has none",
        vae_math);
  const Stream there{.gpu = gpu, .precision = precision};
  check(ops::scaled_conv3d_runs(there, fp8 ? DType::f8_e4m3 : DType::i8), ErrorCode::unsupported,
        "`vae_math`: {} needs a GPU that multiplies {} or later), this one has {}.{}", vae_math,
        fp8 ? "e4m3 (compute capability 8.9" : "int8 fast enough (compute capability 8.0",
        gpu ? gpu->info().major : 0, gpu ? gpu->info().minor : 0);
  return fp8 ? Products::e4m3 : Products::int8;
}

}  // namespace tachy
