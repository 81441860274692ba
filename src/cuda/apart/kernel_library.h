// The structs by which a library of kernels and the program that opens it find each other's functions.
//
// Both sides are compiled from the same sources, and call each other's C++ functions by their names. A program has
// a small piece of code for each function that it needs of the library, a jump through a slot; opening the library
// fills the slots once, so a launch costs one indirect jump. The library needs functions of the program in the same
// way, so that there is one log, one pool of threads and one record of memory. tools/kernel_seam writes the tables
// and jumps of both sides (as assembly, from the symbols of what was compiled).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cuda/gpu.h"

namespace tachy::cuda {

// The functions that one side offers and those that it needs, by the linker's names.
struct Seam {
  uint64_t offered_count;
  const char* const* offered_names;  // in the order of strcmp
  void* const* offered;              // null: this program does not hold that function
  uint64_t needed_count;
  const char* const* needed_names;
  void** needed;  // the slots
};

// A process may hold two programs of the same build, as Python does with the operations and the engine. They share a library,
// which then calls the functions of the one that came first.
struct Joint {
  std::mutex mutex;
  bool joined = false;
};

// The only symbol that a library of kernels exports is one of these, called kKernelSymbol.
struct KernelLibrary {
  uint32_t bytes;             // of this struct
  const char* stamp;          // of version and headers; equal on both sides
  const char* cuda;           // "13.0"
  const char* architectures;  // what its kernels are compiled for: "90a-real"
  const Seam* seam;
  Joint* joint;
  int (*gpu_count)(std::string* why);
  std::unique_ptr<Gpu> (*open_gpu)(int index, std::optional<OutsideQueue> queue);
};
inline constexpr const char* kKernelSymbol = "tachyscope_kernels";

// Fills the slots of `needs` with what `offers` has, and returns the names of those that it has not.
std::vector<std::string> fill_slots(const Seam& needs, const Seam& offers);

}  // namespace tachy::cuda
