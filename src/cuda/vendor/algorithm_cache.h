// Choices that needed a measurement, kept across runs: one small text file per GPU, driver and library in the
// user's cache folder ($XDG_CACHE_HOME or ~/.cache, tachyscope/), with one line per shape. The file may
// vanish or be damaged at any time: a line that cannot be read is dropped, and a file for another GPU, driver
// or library (or one that is not ours) is not used at all. Both are reported once, and nothing here throws.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "cuda/gpu.h"

namespace tachy::cuda {

using AlgorithmWords = std::array<uint64_t, 8>;

// A part of a cache's name: the GPU, and the driver that compiled or found what was measured.
std::string measured_on(const GpuInfo& gpu);

class AlgorithmCache {
 public:
  // `name` is one line of any text, which the file's first line repeats; it is
  // converted into a valid file name.
  explicit AlgorithmCache(const std::string& name);
  const AlgorithmWords* find(const std::string& key) const;
  // Also writes the file, under a temporary name that is then renamed.
  void keep(const std::string& key, const AlgorithmWords& words);
  const std::string& path() const { return path_; }            // empty if there is no such folder
  const std::string& complaint() const { return complaint_; }  // the problem with the file, or empty

 private:
  void read();
  void complain(const std::string& what);
  std::string name_, path_, complaint_;
  std::map<std::string, AlgorithmWords> all_;
};

}  // namespace tachy::cuda
