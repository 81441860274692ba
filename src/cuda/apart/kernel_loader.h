// Opens the library of kernels that serves this machine's GPUs. A program that was built with TACHY_CUDA=APART computes
// on CPUs by itself, and on GPUs with a library of the package tachyscope-cuda13.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cuda/apart/driver.h"
#include "cuda/apart/kernel_files.h"
#include "cuda/apart/kernel_library.h"

namespace tachy::cuda {

// The places and tables of a program; tests have their own.
struct KernelSearch {
  std::vector<std::filesystem::path> folders;
  std::string driver = "libcuda.so.1";
  std::string stamp;
  const Seam* seam = nullptr;
  bool gpu_seen = false;  // by the system; without one, nothing is opened
};

struct OpenedKernels {
  const KernelLibrary* library = nullptr;
  KernelFile file;
  std::vector<int> capabilities;  // of the GPUs
};

// Opens a library and fills the slots of both sides. Without one, `why` says what to install.
OpenedKernels open_kernels(const KernelSearch& search, std::string& why);

// Returns what a user is told whose GPU `index` is not served by the library that this process has opened; "" if it
// is.
std::string why_not_gpu(const OpenedKernels& opened, int index);

}  // namespace tachy::cuda
