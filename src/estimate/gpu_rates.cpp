#include "estimate/gpu_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/env.h"
#include "base/error.h"
#include "cuda/gpu_sheet.h"

namespace tachy {
namespace {

constexpr Rate kUnknown{0, 0, "no kernel of ours has been timed there"};

// Sources of rates for an H200: files of bench/notes, which also give the commands.
constexpr const char
    *kForward = "transformer.md: a forward's calls alone, 1.3B to 14B, 22 November 2026",
    *kEight = "eight_bit_products.md: calls in turn, 1536 x 1536 to 13824 x 5120, 23 November 2026",
    *kHead = "attention_and_gemm.md: flash_sm90 in a forward, 23 November 2026",
    *kCodes = "docs/speed.md: forwards with attention in 8 bits less those without, 23 November 2026",
    *kConv = "vae.md: convolutions of 96 to 1024 channels by the products that they do, 29 November 2026",
    *kConv8 = "vae.md: scaled_conv3d of 96 to 384 channels, 23 November 2026",
    *kConvBytes = "vae.md: scaled_conv3d in int8 of 96 to 384 channels, 28 November 2026",
    *kConvCudnn = "vae.md: cuDNN's graphs beside sm90, 22 November 2026",
    *kInt8 = "eight_bit_products.md: scaled_gemm:sm80 on an H100, 27 November 2026",
    *kCopy = "norms.md, vae.md: fused norms to a copy, 22 November 2026",
    *kLink = "loading.md: PCI Express 5, page-locked",
    *kPeers = "several_gpus.md: pushes between two H200s with the own part, and two H100s without it";
constexpr const char *kSheet = "NVIDIA's data sheet x the share of it that an H200 reaches here",
                     *kLong80 =
                         "mma_table.md: flash_long_sm80 by itself and in forwards as 8.0, 29 November 2026",
                     *kCodes80 = "attention_mma.md: flash8_sm80 on an H100 as 8.0, 27 November 2026";
// Sources of rates for GPUs on which nothing was run: a data sheet's ceiling x a share, which is another one's where
// that is said, and otherwise that of the same kernel on an H100 as 8.0.
constexpr const char
    *kLibrary = "data sheet x 0.75 to 0.85, a guess of what cuBLASLt reaches",
    *kInt8Share = "data sheet x 0.60 to 0.75, the share of scaled_gemm:sm80 (eight_bit_products.md)",
    *kInt8Turing = "data sheet x 0.3 to 0.75, a guess: that kernel's copies wait there (no cp.async)",
    *kFloats = "data sheet x 0.6 to 0.9",
    *kSageChart = "SageAttention's chart of 128 channels a head: FlashAttention-2 on an A100, 204",
    *kLongShare = "data sheet x 0.6 to 0.72, the share of flash_long_sm80 (attention_mma.md) and less",
    *kByteShare =
        "data sheet's int8 and 16-bit rates x 0.6 to 0.7, the share of flash8_sm80 (attention_mma.md)",
    *kHalfShare =
        "data sheet's int8 and f16 rates x 0.35 to 0.7: f16 sums, whose form was not run on such a card",
    *kConvShare = "data sheet x 0.58 to 0.75, the share of conv_halo_sm80 (vae.md)",
    *kConvSmall = "data sheet x 0.23 to 0.31, the share of the kernel before conv_halo_sm80 (vae.md)",
    *kConvCodes = "bf16's x 1.6 to 2: int8 beside bf16 of the same kernel on an H100 (vae.md)",
    *kSoftmax = "12 bytes for each score at the memory's rate, beside products at 30 to 45",
    *kMemory = "data sheet x 0.75 to 0.9", *kLinks = "data sheet x 0.7 to 0.85",
    *kPeersA100 = "data sheet's 300 GB/s each way x the share of 450 that an H200 reaches",
    *kNoPeers = "it has no NVLink, and no run of ours has crossed PCI Express";

constexpr GpuRates kMeasured[] = {
    {.name = "h200",
     .title = "NVIDIA H200",
     .capability = 90,
     .seen = true,
     .multiprocessors = 132,
     .memory_gib = 139.8,
     .product = {680, 760, kForward},
     .product_fp8 = {1250, 1500, kEight},
     .product_int8 = {760, 960, kInt8},
     .product_f32 = {40, 52, kSheet},
     .attention = {720, 765, kHead},
     .attention_int8 = {890, 960, kCodes},
     .convolution = {490, 650, kConv},
     .convolution_fp8 = {1030, 1400, kConv8},
     .convolution_int8 = {740, 990, kConvBytes},
     .memory = {3.5, 4.2, kCopy},
     .transfer = {0.040, 0.055, kLink},
     .link = {0.30, 0.39, kPeers}},
    {.name = "h200",
     .title = "NVIDIA H200 as compute capability 8.0",
     .capability = 80,
     .seen = true,
     .multiprocessors = 132,
     .memory_gib = 139.8,
     .product = {680, 760, kForward},
     .product_fp8 = kUnknown,
     .product_int8 = {760, 960, kInt8},
     .product_f32 = {40, 52, kSheet},
     .attention = {380, 450, kLong80},
     .attention_int8 = {530, 590, kCodes80},
     .convolution = {390, 440, kConvCudnn},
     .convolution_fp8 = kUnknown,
     .convolution_int8 = {740, 990, kConvBytes},
     .memory = {3.5, 4.2, kCopy},
     .transfer = {0.040, 0.055, kLink},
     .link = {0.30, 0.39, kPeers}},
    {.name = "h100",
     .title = "NVIDIA H100, SXM, 80 GB",
     .capability = 90,
     .seen = true,
     .multiprocessors = 132,
     .memory_gib = 79.2,
     .product = {640, 760, kSheet},
     .product_fp8 = {1150, 1500, kSheet},
     .product_int8 = {760, 960, kInt8},
     .product_f32 = {38, 52, kSheet},
     .attention = {680, 765, kSheet},
     .attention_int8 = {840, 960, kSheet},
     .convolution = {460, 650, kSheet},
     .convolution_fp8 = {950, 1400, kSheet},
     .convolution_int8 = {740, 990, kConvBytes},
     .memory = {2.4, 3.0, kSheet},
     .transfer = {0.040, 0.055, kLink},
     .link = {0.30, 0.39, kPeers}},
};

constexpr Rate share(double ceiling, double least, double most, const char* source) {
  return ceiling > 0 ? Rate{ceiling * least, ceiling * most, source} : kUnknown;
}

// A card of few watts holds its clock down in long products: the least is lower there, by a guess.
GpuRates never_run(const cuda::GpuSheet& s) {
  const double cool = s.watts < 100 ? 0.65 : s.watts < 200 ? 0.75 : 1;
  const bool halves = s.half_sums > s.half, old = s.capability < 80;
  // A product in 8 bits and one in 16 of the same size, one after the other.
  const double both = 2 / (1 / s.int8 + 1 / s.half_sums);
  GpuRates r{.name = s.name,
             .title = s.title,
             .capability = s.capability,
             .seen = false,
             .multiprocessors = s.multiprocessors,
             .memory_gib = s.memory_gib,
             .product = share(s.half, 0.75 * cool, 0.85, kLibrary),
             .product_fp8 = share(s.fp8, 0.60 * cool, 0.75, kInt8Share),
             .product_int8 = old ? share(s.int8, 0.30 * cool, 0.75, kInt8Turing)
                                 : share(s.int8, 0.60 * cool, 0.75, kInt8Share),
             .product_f32 = share(s.single, 0.6 * cool, 0.9, kFloats),
             .attention = share(s.half, 0.6 * cool, 0.72, kLongShare),
             .attention_int8 = halves ? share(both, 0.35, 0.7, kHalfShare)
                                      : share(old ? 0 : both, 0.6 * cool, 0.7, kByteShare),
             .convolution = share(s.half, 0.58 * cool, 0.75, kConvShare),
             .convolution_fp8 = share(s.fp8 > 0 ? s.half : 0, 0.58 * cool * 1.6, 0.75 * 2, kConvCodes),
             .convolution_int8 = share(old ? 0 : s.half, 0.58 * cool * 1.6, 0.75 * 2, kConvCodes),
             .memory = share(s.memory, 0.75, 0.9, kMemory),
             .transfer = share(s.link, 0.7, 0.85, kLinks),
             .link = {0, 0, kNoPeers}};
  if (std::string_view(s.name) == "a100")
    r.attention = {180, 225, kSageChart}, r.link = {0.20, 0.26, kPeersA100};
  if (old) {
    r.convolution = share(s.half, 0.23, 0.31, kConvSmall);
    r.attention = {512 / (512 / 30.0 + 12 / (0.9 * s.memory)), 512 / (512 / 45.0 + 12 / s.memory), kSoftmax};
  }
  return r;
}

std::vector<GpuRates> all_rates() {
  std::vector<GpuRates> rows(std::begin(kMeasured), std::end(kMeasured));
  for (const cuda::GpuSheet& sheet : cuda::gpu_sheets()) {
    const auto same = [&](const GpuRates& r) { return std::string_view(r.name) == sheet.name; };
    if (std::ranges::none_of(rows, same)) rows.push_back(never_run(sheet));
  }
  return rows;
}

int capability_wanted() {
  const std::string wanted = env_string("TACHY_CUDA_CAPABILITY", "");
  if (wanted.empty()) return 1000;
  const bool known = wanted.size() <= 3 && wanted.find_first_not_of("0123456789") == std::string::npos;
  require(known, "TACHY_CUDA_CAPABILITY: expected a capability such as 80, got '{}'", wanted);
  return std::stoi(wanted);
}

}  // namespace

std::span<const GpuRates> gpu_rates() {
  static const std::vector<GpuRates> rows = all_rates();
  return rows;
}

const GpuRates& find_gpu_rates(std::string_view name) {
  const int wanted = capability_wanted();
  const GpuRates* best = nullptr;
  std::string names;
  std::string_view last;
  for (const GpuRates& row : gpu_rates()) {
    if (row.name != last) names += (names.empty() ? "" : ", ") + std::string(row.name);
    last = row.name;
    if (row.name == name && row.capability <= wanted && (!best || row.capability > best->capability))
      best = &row;
  }
  require(best, "`gpu`: expected one of {}, got '{}'{}", names, name,
          wanted < 1000 ? fmt::format(" as compute capability {}", wanted) : "");
  return *best;
}

cuda::GpuInfo facts_of(const GpuRates& r) {
  const cuda::GpuSheet* sheet = cuda::find_gpu_sheet(r.name);
  const size_t shared_kib = r.capability == 80 ? 163 : static_cast<size_t>(sheet ? sheet->shared_kib : 99);
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
             : numbers == DType::i8    ? r.product_int8
             : wide                    ? r.product_f32
                                       : r.product;
    case WorkKind::attention:
      return numbers == DType::i8 ? r.attention_int8 : wide ? r.product_f32 : r.attention;
    case WorkKind::convolution:
      return numbers == DType::f8_e4m3 ? r.convolution_fp8
             : numbers == DType::i8    ? r.convolution_int8
             : wide                    ? r.product_f32
                                       : r.convolution;
    case WorkKind::pass:
      return r.memory;
    case WorkKind::transfer:
      return r.transfer;
  }
  return kUnknown;
}

}  // namespace tachy
