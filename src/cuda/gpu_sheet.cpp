#include "cuda/gpu_sheet.h"

namespace tachy::cuda {
namespace {

constexpr double kLink3 = 0.01575, kLink4 = 0.0315, kLink5 = 0.063;  // PCI Express, 16 lanes

// GeForce cards of 8.6 and later halve 16-bit and e4m3 products with float32 sums.
constexpr GpuSheet kSheets[] = {
    {"h100", "NVIDIA H100, SXM, 80 GB", " H100 80GB HBM3", 90, 132, 79.2, 227, 50, 989, 989, 1979, 1979, 67,
     3.35, kLink5, 700, "NVIDIA H100 Tensor Core GPU datasheet"},
    {"h200", "NVIDIA H200", " H200", 90, 132, 139.8, 227, 50, 989, 989, 1979, 1979, 67, 4.8, kLink5, 700,
     "NVIDIA H200 Tensor Core GPU datasheet"},
    {"a100", "NVIDIA A100, SXM, 80 GB", " A100-SXM4-80GB", 80, 108, 79.1, 163, 40, 312, 312, 624, 0, 19.5,
     2.04, kLink4, 400, "NVIDIA A100 Tensor Core GPU datasheet and Ampere architecture whitepaper"},
    {"a10", "NVIDIA A10, 24 GB", " A10", 86, 72, 22.0, 99, 6, 125, 125, 250, 0, 31.2, 0.6, kLink4, 150,
     "NVIDIA A10 Tensor Core GPU datasheet"},
    {"l4", "NVIDIA L4, 24 GB", " L4", 89, 58, 22.0, 99, 48, 121, 121, 242, 242, 30.3, 0.3, kLink4, 72,
     "NVIDIA L4 Tensor Core GPU datasheet"},
    {"l40s", "NVIDIA L40S, 48 GB", " L40S", 89, 142, 44.4, 99, 96, 362, 362, 733, 733, 91.6, 0.864, kLink4,
     350, "NVIDIA L40S GPU datasheet"},
    {"t4", "NVIDIA T4, 16 GB", " T4", 75, 40, 14.6, 64, 4, 65, 65, 130, 0, 8.1, 0.32, kLink3, 70,
     "NVIDIA T4 Tensor Core GPU datasheet"},
    {"3090", "NVIDIA GeForce RTX 3090, 24 GB", " RTX 3090", 86, 82, 23.6, 99, 6, 71, 142, 284, 0, 35.6, 0.936,
     kLink4, 350, "NVIDIA Ampere GA102 GPU architecture whitepaper"},
    {"4090", "NVIDIA GeForce RTX 4090, 24 GB", " RTX 4090", 89, 128, 23.5, 99, 72, 165.2, 330.3, 660.6, 330.3,
     82.6, 1.008, kLink4, 450, "NVIDIA Ada GPU architecture whitepaper"},
    {"5090", "NVIDIA GeForce RTX 5090, 32 GB", " RTX 5090", 120, 170, 31.3, 99, 96, 209.5, 419, 838, 419,
     104.8, 1.792, kLink5, 575, "NVIDIA RTX Blackwell GPU architecture whitepaper"},
};

}  // namespace

std::span<const GpuSheet> gpu_sheets() { return kSheets; }

const GpuSheet* find_gpu_sheet(std::string_view name) {
  for (const GpuSheet& sheet : kSheets)
    if (name == sheet.name) return &sheet;
  return nullptr;
}

const GpuSheet* sheet_of(const GpuInfo& gpu) {
  for (const GpuSheet& sheet : kSheets)
    if (gpu.name.ends_with(sheet.known)) return &sheet;
  return nullptr;
}

}  // namespace tachy::cuda
