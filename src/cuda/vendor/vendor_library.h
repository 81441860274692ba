// Shared libraries of the vendor (cuBLASLt, cuDNN, NCCL), opened at run time, so that neither building nor starting
// needs them. They are looked for in this order: in each folder of TACHY_CUDA_LIBRARIES (a:b; a folder that
// holds the library, or the folder `nvidia` of a Python environment whose packages bring it), beside the
// program, in the folder `nvidia` beside this package of Python, and where the system's loader looks.
#pragma once

#include <span>
#include <string>

#include "base/error.h"
#include "base/os/library.h"

namespace tachy::cuda {

class VendorLibrary {
 public:
  // Opens the first of `names` that can be opened. `packages` says where the Python packages keep it
  // ("cudnn/lib"). Without success `why` tells what was tried.
  bool open(std::span<const char* const> names, std::span<const char* const> packages, std::string& why);
  explicit operator bool() const { return static_cast<bool>(library_); }
  const std::string& name() const { return name_; }

  // Throws `unsupported` if the library has no such function (too old).
  template <class Function>
  void find(const char* name, Function*& to) const {
    to = reinterpret_cast<Function*>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;
  os::Library library_;
  std::string name_;
};

}  // namespace tachy::cuda
