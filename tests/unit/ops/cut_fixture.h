// A fixture for tests of cuts: a part of a call's rows, frames or queries, computed alone, must have the bits
// that it has in the whole call, because a long clip is processed in pieces whose size depends on memory or
// an option.
#pragma once

#include <cstring>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "cpu/panels.h"
#include "op_fixture.h"

namespace tachy {

class CutFixture : public OpFixture {
 protected:
  using Cuts = std::vector<std::pair<int64_t, int64_t>>;  // [first, end)

  // Returns both ways of computing products, as far as this CPU and TACHY_BF16 allow.
  static std::vector<Compute> computes() {
    if (cpu::panels_why_not(Compute::bf16)) return {Compute::f32};
    return {Compute::f32, Compute::bf16};
  }
  static const char* name_of(Compute compute) { return compute == Compute::bf16 ? "bf16" : "float32"; }

  Tensor filled(DType dtype, Dims dims) {
    const Tensor wide = random(dims), t = blank(dtype, dims);
    for (int64_t i = 0; i < t.numel(); ++i) {
      const float v = wide.as<float>()[i];
      if (dtype == DType::f32) t.as<float>()[i] = v;
      if (dtype == DType::f16) t.as<f16_t>()[i] = to_f16(v);
      if (dtype == DType::bf16) t.as<bf16_t>()[i] = to_bf16(v);
      if (dtype == DType::i8) t.as<int8_t>()[i] = static_cast<int8_t>(20 * v);
      if (dtype == DType::f8_e4m3) t.as<f8_e4m3_t>()[i] = to_f8_e4m3(v);
    }
    return t;
  }

  // Returns rows [first, end) of the outermost dim.
  static Tensor part(const Tensor& t, int64_t first, int64_t end) {
    return t.defined() ? t.slice(0, first, end) : t;
  }
  static bool same_bits(const Tensor& a, const Tensor& b) {
    return a.bytes() == b.bytes() && std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes())) == 0;
  }
  static void poison(const Tensor& t) { std::memset(t.data, 0xff, static_cast<size_t>(t.bytes())); }

  // Runs call(first, end, result) on all of y's rows, then on each of `cuts` with the same rows of the
  // arguments; results are contiguous.
  using Call = std::function<void(int64_t first, int64_t end, const Tensor& result, Stream& stream)>;
  void expect_same(const Tensor& y, const Cuts& cuts, const std::string& what, const Call& call,
                   Compute compute = Compute::f32) {
    const auto run = [&](int64_t first, int64_t end, const Tensor& result) {
      poison(result);
      measure_and_run([&](Stream& stream) {
        stream.precision.compute = compute;
        call(first, end, result, stream);
      });
    };
    run(0, y.dim(0), y);
    const Tensor other = blank(y.dtype, {y.numel()});
    const bool slow =
        compute == Compute::bf16 && cpu::panels_name(compute) == std::string_view("portable-bf16");
    for (size_t i = 0; i < cuts.size(); i += slow && cuts.size() > 8 ? 5 : 1) {
      const auto [first, end] = cuts[i];
      Tensor alone = y.slice(0, 0, end - first);
      alone.data = other.data;
      run(first, end, alone);
      ASSERT_TRUE(same_bits(alone, part(y, first, end)))
          << what << ", " << name_of(compute) << ": [" << first << ", " << end << ") of " << y.dim(0);
    }
  }
  // Returns cuts of every size up to `all` if that is small; otherwise cuts at the sizes where something
  // could change.
  static Cuts cuts_of(int64_t all) {
    Cuts cuts;
    for (const int64_t size :
         {1,  2,  3,  4,   6,   7,   8,   9,   12,  15,  16,  17,  31,  32,  33,  48,  63,  64,  65,
          95, 96, 97, 100, 127, 128, 129, 160, 191, 192, 193, 200, 255, 256, 257, 300, 383, 384, 385})
      if (size < all) cuts.push_back({(all - size) * (size % 5) / 4, (all - size) * (size % 5) / 4 + size});
    return cuts;
  }
};

}  // namespace tachy
