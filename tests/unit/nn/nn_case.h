// A file of random tensors in memory, and a place to build layers from it and run them on the CPU.
#pragma once

#include <deque>
#include <random>
#include <string>
#include <vector>

#include "nn/params.h"
#include "weights/derived_tensor.h"
#include "weights/scope.h"

namespace tachy::test {

// Gives the values of a file's entry, row by row.
class MadeValues final : public DerivedTensor {
 public:
  explicit MadeValues(const TensorSource::Entry& entry) : entry_(entry) {}
  std::string_view encoding() const override { return "stored"; }
  void decode(int64_t first, const Tensor& rows) const override {
    const int64_t begin = first * rows.dim(1);
    for (int64_t i = 0; i < rows.numel(); ++i)
      rows.as<float>()[i] = entry_.dtype == DType::bf16
                                ? to_float(static_cast<const bf16_t*>(entry_.data)[begin + i])
                                : static_cast<const float*>(entry_.data)[begin + i];
  }

 private:
  TensorSource::Entry entry_;
};

struct RandomFile {
  std::vector<TensorSource::Entry> entries;
  std::deque<std::vector<float>> values;
  std::deque<std::vector<bf16_t>> low_values;
  std::mt19937 random{7};

  void add(const std::string& name, std::vector<int64_t> dims, DType dtype = DType::f32) {
    size_t count = 1;
    for (const int64_t n : dims) count *= static_cast<size_t>(n);
    std::normal_distribution<float> normal(0, 0.2f);
    auto& made = values.emplace_back(count);
    for (float& v : made) v = normal(random);
    const void* data = made.data();
    if (dtype == DType::bf16) {
      auto& low = low_values.emplace_back();
      for (const float v : made) low.push_back(to_bf16(v));
      data = low.data();
    }
    entries.push_back({.name = name,
                       .name_in_file = name,
                       .dtype = dtype,
                       .dims = std::move(dims),
                       .data = data,
                       .bytes = count * static_cast<size_t>(dtype_size(dtype))});
  }
  void add_linear(const std::string& name, int64_t in, int64_t out, DType dtype = DType::f32) {
    add(name + ".weight", {out, in}, dtype);
    add(name + ".bias", {out});
  }
  // Returns the same file with weights that must be made first.
  RandomFile derived() const {
    RandomFile out;
    out.entries = entries;
    for (TensorSource::Entry& entry : out.entries) {
      if (!entry.name.ends_with(".weight")) continue;
      entry.derived = std::make_shared<MadeValues>(entry);
      entry.data = nullptr;
    }
    return out;
  }
  Scope scope() const {
    return Scope(std::make_shared<TensorSource>(entries, std::vector<std::shared_ptr<const MappedFile>>{}));
  }
};

// A stream on the CPU with an arena that is large enough, and random rows for it.
struct HostRun {
  ThreadPool pool{2};
  Arena arena{size_t{32} << 20};
  Stream stream{.arena = &arena, .pool = &pool};

  static std::vector<float> rows(int64_t count, int64_t columns, unsigned seed = 1) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> out(static_cast<size_t>(count * columns));
    for (float& v : out) v = normal(random);
    return out;
  }
};

}  // namespace tachy::test
