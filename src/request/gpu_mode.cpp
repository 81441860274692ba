#include "request/gpu_mode.h"

#include "base/env.h"
#include "base/error.h"
#include "request/level.h"

namespace tachy {

const std::vector<GpuLevel>& gpu_levels() {
  static const std::vector<GpuLevel> list = {
      {"none",
       {.activation = DType::f32, .graphs = false},
       "float32 activations and products, no CUDA graphs: for comparison"},
      {"safe", {}, "bf16 activations and products, the rest float32; CUDA graphs; repeats itself to the bit"},
      {"aggressive", {.residual = DType::bf16}, "safe, and the residual stream in the activations' dtype"},
      {"extreme",
       {.residual = DType::bf16,
        .products = Products::e4m3,
        .step_cache = find_level("extreme").mode.step_cache},
       "aggressive, the step cache (steps whose input changed little are skipped), and from compute "
       "capability 8.9 on linear layers in fp8"},
  };
  return list;
}

namespace {

// Returns the products that `math` asks for, or the level's with auto. e4m3 needs activations in bf16, int8 in
// 16 bits (before 8.0 a GPU has f16 alone), and TF32 needs them in float32.
Products products_of(std::string_view math, std::string_view level, const GpuMode& mode, int capability) {
  const bool low = mode.activation == DType::bf16;
  if (math == "auto") return capability >= 89 && low ? mode.products : Products::as_activations;
  require(math != "bf16" || low, "`math`: bf16 needs activations in bf16, and `dtype` is {}",
          dtype_name(mode.activation));
  if (math == "bf16") return Products::as_activations;
  const bool integers = math == "int8";
  check(capability >= (integers ? 75 : 80), ErrorCode::unsupported,
        "`math`: {} needs a GPU of compute capability {}, this one has {}.{}", math, integers ? "7.5" : "8.0",
        capability / 10, capability % 10);
  if (math == "tf32") {
    require(level != "none", "`math`: level none computes in IEEE float32; use `level` safe and `dtype` f32");
    require(mode.activation == DType::f32,
            "`math`: tf32 needs activations in f32, and `dtype` is {}; say `dtype` f32, or leave `math` out",
            dtype_name(mode.activation));
    return Products::tf32;
  }
  require(low || (integers && mode.activation == DType::f16),
          "`math`: {} needs activations in {}, and `dtype` is {}", math, integers ? "bf16 or f16" : "bf16",
          dtype_name(mode.activation));
  return integers ? Products::int8 : Products::e4m3;
}

}  // namespace

GpuMode gpu_mode(std::string_view level, std::string_view dtype, int capability, std::string_view wanted,
                 std::string_view attention, std::string_view math) {
  find_level(level);
  GpuMode mode;
  for (const GpuLevel& l : gpu_levels())
    if (level == l.name) mode = l.mode;
  check(capability >= 80 || dtype != "bf16", ErrorCode::unsupported,
        "`dtype`: bf16 needs a GPU of compute capability 8.0, this one has {}.{}; use f16 or f32",
        capability / 10, capability % 10);
  if (capability < 80 && dtype.empty() && mode.activation == DType::bf16) dtype = "f16";
  if (!dtype.empty()) {
    require(dtype == "f32" || dtype == "f16" || dtype == "bf16",
            "`dtype`: expected f32, bf16 or f16, got '{}'", dtype);
    require(level != "none" || dtype == "f32", "`dtype`: level none computes in f32, got '{}'", dtype);
    const DType given = dtype == "f32" ? DType::f32 : dtype == "f16" ? DType::f16 : DType::bf16;
    if (mode.residual == mode.activation) mode.residual = given;
    mode.activation = given;
  }
  const std::string residual = env_string("TACHY_RESIDUAL", ""), graphs = env_string("TACHY_GRAPHS", "");
  require(residual.empty() || residual == "f32" || residual == "low",
          "TACHY_RESIDUAL: expected f32 or low (the activations' dtype), got '{}'", residual);
  require(graphs.empty() || graphs == "on" || graphs == "off", "TACHY_GRAPHS: expected on or off, got '{}'",
          graphs);
  if (!residual.empty()) mode.residual = residual == "low" ? mode.activation : DType::f32;
  if (!wanted.empty()) {
    const std::string_view low = dtype_name(mode.activation);
    require(wanted == "f32" || wanted == low, "`residual`: expected f32 or the activations' {}, got '{}'",
            low, wanted);
    mode.residual = wanted == "f32" ? DType::f32 : mode.activation;
  }
  if (!graphs.empty()) mode.graphs = graphs == "on";
  mode.products = products_of(math, level, mode, capability);
  require(attention != "bf16" || mode.activation == DType::bf16,
          "`attention`: bf16 needs activations in bf16, and `dtype` is {}", dtype_name(mode.activation));
  if (attention != "int8") return mode;
  check(capability >= 80, ErrorCode::unsupported,
        "`attention`: int8 needs a GPU of compute capability 8.0 or later, this one has {}.{}",
        capability / 10, capability % 10);
  require(mode.activation == DType::bf16, "`attention`: int8 needs activations in bf16, and `dtype` is {}",
          dtype_name(mode.activation));
  mode.attention_int8 = true;
  return mode;
}

}  // namespace tachy
