// Draws the sizes and options of random cases (<op>_random_cases.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <random>

namespace tachy::ops {

class RandomDraw {
 public:
  explicit RandomDraw(uint64_t seed) : engine_(seed) {}
  bool chance(double p) { return std::uniform_real_distribution<double>()(engine_) < p; }
  int64_t one_of(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, std::max(least, most))(engine_);
  }
  // Small numbers are as likely as large ones.
  int64_t length(int64_t most) {
    return std::llround(
        std::exp2(std::uniform_real_distribution<double>(0, std::log2(static_cast<double>(most)))(engine_)));
  }
  // The same, but in most cases a multiple of `step`, as kernels for whole pieces want it.
  int64_t length_by(int64_t step, int64_t most) {
    return chance(0.75) ? step * length(most / step) : length(most);
  }
  template <class T>
  T any(std::initializer_list<T> list) {
    return list.begin()[one_of(0, static_cast<int64_t>(list.size()) - 1)];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace tachy::ops
