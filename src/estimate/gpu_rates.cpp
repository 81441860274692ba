#include "estimate/gpu_rates.h"

#include <fmt/format.h>

#include "base/env.h"
#include "base/error.h"

namespace tachy {
namespace {

constexpr Rate kUnknown{0, 0, "no kernel of ours has been timed there"};

// Sources of rates for an H200: files of bench/notes, which also give the commands.
constexpr const char
    *kForward = "transformer.md: a forward's calls alone, 1.3B to 14B, 22 November 2026",
    *kEight = "eight_bit_products.md: calls in turn, 1536 x 1536 to 13824 x 5120, 23 November 2026",
    *kHead = "attention_and_gemm.md: flash_sm90 in a forward, 23 November 2026",
    *kCodes = "docs/speed.md: forwards with attention in 8 bits less those without, 23 November 2026",
    *kCudnn = "transformer.md: cuDNN's attention in forwards, 22 November 2026",
    *kConv = "vae.md: 3x3x3 convolutions of 96 to 384 channels, 22 November 2026",
    *kConv8 = "vae.md: scaled_conv3d of 96 to 384 channels, 23 November 2026",
    *kConvCudnn = "vae.md: cuDNN's graphs beside sm90, 22 November 2026",
    *kCopy = "norms.md, vae.md: fused norms to a copy, 22 November 2026",
    *kLink = "loading.md: PCI Express 5, page-locked";
// Sources of rates for other GPUs.
constexpr const char *kSheet = "NVIDIA's data sheet x the share of it that an H200 reaches here",
                     *kSheetA100 = "NVIDIA's data sheet (312 TFLOP/s) x 0.75 to 0.85",
                     *kSageChart =
                         "SageAttention's chart of 128 channels a head: FlashAttention-2 on an A100, 204",
                     *kConvA100 = "data sheet x 0.4 to 0.6: the share that cuDNN's graphs reach of an H200's",
                     *kSheetL4 = "NVIDIA's data sheet (121 TFLOP/s) x 0.5 to 0.75: 72 W hold its clock down",
                     *kGuessL4 = "data sheet x the share of an A100, less for 72 W",
                     *kConvCodesL4 =
                         "bf16's x 1.5 to 2: int8 beside bf16 of the same kernel on an H100, vae.md",
                     *kCodes80 = "attention_mma.md: flash8_sm80 on an H100 as 8.0, 27 November 2026",
                     *kCodesSheet =
                         "data sheet's int8 and f16 rates x 0.55 to 0.7, the share that an H100 reaches",
                     *kLink4 = "PCI Express 4 x 16: 31.5 GB/s x 0.7 to 0.85";

constexpr GpuRates kRates[] = {
    {.name = "h200",
     .title = "NVIDIA H200",
     .capability = 90,
     .seen = true,
     .multiprocessors = 132,
     .memory_gib = 139.8,
     .product = {680, 760, kForward},
     .product_fp8 = {1250, 1500, kEight},
     .product_f32 = {40, 52, kSheet},
     .attention = {720, 765, kHead},
     .attention_int8 = {890, 960, kCodes},
     .convolution = {600, 720, kConv},
     .convolution_fp8 = {1030, 1400, kConv8},
     .memory = {3.5, 4.2, kCopy},
     .transfer = {0.040, 0.055, kLink}},
    {.name = "h200",
     .title = "NVIDIA H200 as compute capability 8.0",
     .capability = 80,
     .seen = true,
     .multiprocessors = 132,
     .memory_gib = 139.8,
     .product = {680, 760, kForward},
     .product_fp8 = kUnknown,
     .product_f32 = {40, 52, kSheet},
     .attention = {530, 590, kCudnn},
     .attention_int8 = {530, 590, kCodes80},
     .convolution = {390, 440, kConvCudnn},
     .convolution_fp8 = kUnknown,
     .memory = {3.5, 4.2, kCopy},
     .transfer = {0.040, 0.055, kLink}},
    {.name = "h100",
     .title = "NVIDIA H100, SXM, 80 GB",
     .capability = 90,
     .seen = true,
     .multiprocessors = 132,
     .memory_gib = 79.2,
     .product = {640, 760, kSheet},
     .product_fp8 = {1150, 1500, kSheet},
     .product_f32 = {38, 52, kSheet},
     .attention = {680, 765, kSheet},
     .attention_int8 = {840, 960, kSheet},
     .convolution = {560, 720, kSheet},
     .convolution_fp8 = {950, 1400, kSheet},
     .memory = {2.4, 3.0, kSheet},
     .transfer = {0.040, 0.055, kLink}},
    {.name = "a100",
     .title = "NVIDIA A100, SXM, 80 GB",
     .capability = 80,
     .seen = false,
     .multiprocessors = 108,
     .memory_gib = 79.1,
     .product = {235, 265, kSheetA100},
     .product_fp8 = kUnknown,
     .product_f32 = {14, 18, kSheet},
     .attention = {180, 225, kSageChart},
     .attention_int8 = {225, 295, kCodesSheet},
     .convolution = {125, 185, kConvA100},
     .convolution_fp8 = kUnknown,
     .memory = {1.5, 1.8, kSheet},
     .transfer = {0.022, 0.027, kLink4}},
    {.name = "l4",
     .title = "NVIDIA L4, 24 GB",
     .capability = 89,
     .seen = false,
     .multiprocessors = 58,
     .memory_gib = 22.0,
     .product = {60, 90, kSheetL4},
     .product_fp8 = kUnknown,
     .product_f32 = {12, 22, kSheetL4},
     .attention = {50, 75, kGuessL4},
     .attention_int8 = {65, 105, kCodesSheet},
     .convolution = {35, 60, kGuessL4},
     .convolution_fp8 = {52, 120, kConvCodesL4},
     .memory = {0.23, 0.27, kSheet},
     .transfer = {0.022, 0.027, kLink4}},
};

int capability_wanted() {
  const std::string wanted = env_string("TACHY_CUDA_CAPABILITY", "");
  if (wanted.empty()) return 1000;
  const bool known = wanted.size() <= 3 && wanted.find_first_not_of("0123456789") == std::string::npos;
  require(known, "TACHY_CUDA_CAPABILITY: expected a capability such as 80, got '{}'", wanted);
  return std::stoi(wanted);
}

}  // namespace

std::span<const GpuRates> gpu_rates() { return kRates; }

const GpuRates& find_gpu_rates(std::string_view name) {
  const int wanted = capability_wanted();
  const GpuRates* best = nullptr;
  std::string names;
  for (const GpuRates& row : kRates) {
    if (names.find(row.name) == std::string::npos)
      names += (names.empty() ? "" : ", ") + std::string(row.name);
    if (row.name == name && row.capability <= wanted && (!best || row.capability > best->capability))
      best = &row;
  }
  require(best, "`gpu`: expected one of {}, got '{}'{}", names, name,
          wanted < 1000 ? fmt::format(" as compute capability {}", wanted) : "");
  return *best;
}

cuda::GpuInfo facts_of(const GpuRates& r) {
  const size_t shared_kib = r.capability == 80 ? 163 : r.capability < 90 ? 99 : 227;
  return {.name = r.title,
          .major = r.capability / 10,
          .minor = r.capability % 10,
          .multiprocessors = r.multiprocessors,
          .memory_bytes = static_cast<size_t>(r.memory_gib * 0x1p30),
          .shared_bytes = shared_kib << 10};
}

const Rate& rate_of(const GpuRates& r, WorkKind kind, DType numbers) {
  const bool wide = numbers == DType::f32;
  switch (kind) {
    case WorkKind::product:
      return numbers == DType::f8_e4m3 ? r.product_fp8
             : numbers == DType::i8    ? kUnknown
             : wide                    ? r.product_f32
                                       : r.product;
    case WorkKind::attention:
      return numbers == DType::i8 ? r.attention_int8 : wide ? r.product_f32 : r.attention;
    case WorkKind::convolution:
      return numbers == DType::f8_e4m3 ? r.convolution_fp8 : wide ? r.product_f32 : r.convolution;
    case WorkKind::pass:
      return r.memory;
    case WorkKind::transfer:
      return r.transfer;
  }
  return kUnknown;
}

}  // namespace tachy
