// Choices that took a measurement, kept across runs: one small text file a GPU, driver and library in the
// user's cache folder ($XDG_CACHE_HOME or ~/.cache, tachyscope/). It may vanish or be damaged at any time: a
// line that does not read well is dropped, and nothing here throws.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace tachy::cuda {

using AlgorithmWords = std::array<uint64_t, 8>;

class AlgorithmCache {
 public:
  explicit AlgorithmCache(const std::string& name);  // any text; made fit for a file name
  const AlgorithmWords* find(const std::string& key) const;
  // Also writes the file: under a temporary name, then renamed.
  void keep(const std::string& key, const AlgorithmWords& words);
  const std::string& path() const { return path_; }  // empty: there is no such folder

 private:
  void read();
  std::string path_;
  std::map<std::string, AlgorithmWords> all_;
};

}  // namespace tachy::cuda
