// Libraries of kernels as files: where they are looked for, and which of them serves the GPUs of this machine.
//
// There is a file for each architecture, libtachyscope_cuda13_sm80_ptx.so for example: it holds code for GPUs of
// capability 8.0 and later ones of the same family (8.6, 8.9), and, by _ptx, code that the driver can compile for
// every newer GPU. A letter (sm90a) means that capability alone.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tachy::cuda {

struct KernelFile {
  std::filesystem::path path;
  int capability = 0;  // 90 for 9.0
  bool alone = false;  // of no other capability
  bool ptx = false;
};

// The folders in their order: TACHY_CUDA_KERNELS if it is set, and nothing else then; otherwise those near `module`, the
// file that holds this code. Packages put the libraries there.
std::vector<std::filesystem::path> kernel_folders(const std::string& setting,
                                                  const std::filesystem::path& module);

// The files of the first folder that has any, sorted by name.
std::vector<KernelFile> kernel_files(std::span<const std::filesystem::path> folders);

// How well a file serves a GPU: 0 not at all, more is better.
int fitness(const KernelFile& file, int capability);

// The file for these GPUs. A process opens one: the one that fits the first GPU best among those whose code all of
// them run as it is, or, where there is none, the one that fits the first best. Null if none serves the first.
const KernelFile* choose_kernels(std::span<const KernelFile> files, std::span<const int> capabilities);

std::string architectures_of(std::span<const KernelFile> files);  // "75 80 86 89 90a 120"

}  // namespace tachy::cuda
