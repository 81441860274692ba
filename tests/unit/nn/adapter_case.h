// Three layers with one input, random matrices for adapters on them, and the results of layers and adapters
// in float64.
#pragma once

#include "nn/adapter_set.h"
#include "nn_case.h"

namespace tachy::nn::test {

using tachy::test::HostRun;
using tachy::test::RandomFile;

inline constexpr int64_t kIn = 40, kEach = 20;
inline constexpr const char* kParts[] = {"a.to_q", "a.to_k", "a.to_v"};

enum class Form { mapped, packed, dense };
inline constexpr Form kForms[] = {Form::mapped, Form::packed, Form::dense};

// The layers q, k and v with one input, and matrices for adapters: NAME.A and NAME.B.
struct Layers {
  RandomFile file;
  HostRun host;

  Layers() {
    for (const char* name : kParts) file.add_linear(name, kIn, kEach);
    add_adapter("one", 3);
    add_adapter("two", 9, DType::bf16);
    add_adapter("three", 16);
  }
  void add_adapter(const std::string& name, int64_t rank, DType dtype = DType::f32) {
    file.add(name + ".A", {rank, kIn}, dtype);
    file.add(name + ".B", {kEach, rank}, dtype);
  }
  LowRank adapter(const std::string& layer, const std::string& name, float scale = 1) const {
    const Scope scope = file.scope();
    return {.layer = layer,
            .a = scope.tensor(name + ".A", std::initializer_list<int64_t>{-1, kIn}),
            .b = scope.tensor(name + ".B", std::initializer_list<int64_t>{kEach, -1}),
            .scale = scale};
  }
  Linear alone(const char* name, ParamStore& store, Form form) const {
    const Scope scope = file.scope().sub(name);
    if (form == Form::dense)
      return Linear::from_host(scope, scope.tensor("weight", {kEach, kIn}), scope.tensor("bias", {kEach}),
                               store);
    return {scope, store, kIn, kEach};
  }
  Linear joined(ParamStore& store) const {
    const Scope scope = file.scope();
    const Scope parts[] = {scope.sub(kParts[0]), scope.sub(kParts[1]), scope.sub(kParts[2])};
    return Linear::joined(parts, store, kIn, kEach);
  }
  // Returns x·Wᵀ + bias + Σ scale·(x·Aᵀ)·Bᵀ for one row of a layer.
  std::vector<double> row_of(const std::string& layer, const float* x,
                             std::span<const LowRank> adapters) const {
    const Scope scope = file.scope().sub(layer);
    const Tensor weight = scope.tensor("weight", {kEach, kIn}), bias = scope.tensor("bias", {kEach});
    std::vector<double> y;
    for (int64_t j = 0; j < kEach; ++j) {
      double sum = bias.as<float>()[j];
      for (int64_t i = 0; i < kIn; ++i) sum += double{x[i]} * weight.as<float>()[j * kIn + i];
      for (const LowRank& own : adapters) {
        if (own.layer != layer) continue;
        for (int64_t r = 0; r < own.a.dim(0); ++r) {
          double low = 0;
          for (int64_t i = 0; i < kIn; ++i) low += double{x[i]} * value(own.a, r * kIn + i);
          sum += own.scale * low * value(own.b, j * own.a.dim(0) + r);
        }
      }
      y.push_back(sum);
    }
    return y;
  }
  // Returns the part that adapters add. With `codes`, x and the rows of A are rounded to e4m3 with one scale
  // each.
  std::vector<double> added(const std::string& layer, const float* x, std::span<const LowRank> adapters,
                            bool codes) const {
    std::vector<double> y(kEach);
    const auto own_x = values_of(kIn, codes, [&](int64_t i) { return x[i]; });
    for (const LowRank& own : adapters)
      for (int64_t r = 0; own.layer == layer && r < own.a.dim(0); ++r) {
        const auto a =
            values_of(kIn, codes, [&](int64_t i) { return static_cast<float>(value(own.a, r * kIn + i)); });
        double low = 0;
        for (size_t i = 0; i < a.size(); ++i) low += own_x[i] * a[i];
        for (int64_t j = 0; j < kEach; ++j)
          y[static_cast<size_t>(j)] += own.scale * low * value(own.b, j * own.a.dim(0) + r);
      }
    return y;
  }
  template <class Value>
  static std::vector<double> values_of(int64_t count, bool codes, Value&& at) {
    float largest = 0;
    for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(at(i)));
    const float scale = largest / 448.0f;
    std::vector<double> out;
    for (int64_t i = 0; i < count; ++i)
      out.push_back(codes ? to_float(to_f8_e4m3(at(i) / scale)) * static_cast<double>(scale) : at(i));
    return out;
  }
  static double value(const Tensor& t, int64_t i) {
    return t.dtype == DType::bf16 ? to_float(t.as<bf16_t>()[i]) : t.as<float>()[i];
  }
};

inline Tensor tensor_of(std::vector<float>& values, int64_t columns) {
  return Tensor(values.data(), DType::f32, {static_cast<int64_t>(values.size()) / columns, columns});
}

inline std::vector<float> run(const Linear& linear, std::vector<float> x, Stream stream,
                              const AdapterSet* set, ops::Activation act = ops::Activation::none) {
  stream.adapters = set;
  std::vector<float> y(x.size() / kIn * static_cast<size_t>(linear.out()), NAN);
  linear(tensor_of(x, kIn), tensor_of(y, linear.out()), stream, {.act = act});
  return y;
}

}  // namespace tachy::nn::test
