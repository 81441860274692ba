// Golden tensors of the linear layer and the convolutions (tests/golden/ops/make_gemm_conv.py), and a stream
// to run on.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <list>
#include <nlohmann/json.hpp>
#include <vector>

#include "ops/impl_table.h"
#include "tensor/stream.h"

namespace tachy {

class GoldenCase {
 public:
  explicit GoldenCase(const char* name) {
    static const auto all =
        nlohmann::json::parse(std::ifstream(TACHY_SOURCE_DIR "/tests/golden/ops/gemm_conv.json"));
    entry_ = all.at(name);
  }

  Tensor load(const char* name) {
    const auto& stored = entry_.at(name);
    const bool integers = stored.at("data").at(0).is_number_integer();
    const auto dims = stored.at("shape").get<std::vector<int64_t>>();
    const Tensor t = empty(dims, integers ? DType::i32 : DType::f32);
    int64_t i = 0;
    for (const auto& v : stored.at("data")) {
      if (integers)
        t.as<int32_t>()[i++] = v.get<int32_t>();
      else
        t.as<float>()[i++] = static_cast<float>(v.get<double>());
    }
    return t;
  }

  // Makes a tensor filled with NaN, so that an element that is not written is noticed.
  Tensor empty(std::span<const int64_t> dims, DType dtype = DType::f32) {
    Tensor t(nullptr, dtype, dims);
    buffers_.emplace_back(static_cast<size_t>(t.bytes()));
    t.data = buffers_.back().data();
    std::memset(t.data, 0xff, static_cast<size_t>(t.bytes()));
    return t;
  }
  Tensor bytes(int64_t count) {
    const int64_t dims[] = {count};
    return empty(dims, DType::u8);
  }

  Stream& stream() { return stream_; }

 private:
  nlohmann::json entry_;
  std::list<Buffer> buffers_;
  ThreadPool pool_{2};
  Arena arena_{8 << 20};
  Stream stream_{&arena_, &pool_};
};

// Expects values within 3e-6 of the largest value; NaN never passes.
inline void expect_close(const Tensor& got, const Tensor& expected, const char* what) {
  ASSERT_TRUE(same_shape(got, expected)) << what << shape_string(got) << shape_string(expected);
  double highest = 0;
  for (int64_t i = 0; i < expected.numel(); ++i)
    highest = std::max(highest, std::abs(static_cast<double>(expected.as<float>()[i])));
  for (int64_t i = 0; i < got.numel(); ++i)
    ASSERT_NEAR(got.as<float>()[i], expected.as<float>()[i], 3e-6 * highest) << what << " at " << i;
}

// Forces one implementation of one op for its lifetime.
struct Forced {
  const char* op;
  Forced(const char* name, const char* impl) : op(name) { ops::set_forced_impl(op, impl); }
  ~Forced() { ops::set_forced_impl(op, nullptr); }
};

}  // namespace tachy
