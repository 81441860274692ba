// Random adapters for every linear layer of a golden case, and the same weights with adapters merged into
// them.
#pragma once

#include <algorithm>
#include <deque>
#include <random>

#include "wan_dit_case.h"

namespace tachy::test {

class WanAdapters {
 public:
  std::vector<nn::LowRank> all;

  explicit WanAdapters(const WanDitCase& c) : weights_(c.weights) {
    ThreadPool pool(1);
    Arena measure;
    Stream stream{.arena = &measure, .pool = &pool};
    nn::ParamStore store({.plan_only = true}, stream);
    const auto model = c.load(store);
    std::mt19937 random(11);
    for (const auto& entry : model->linears()) {
      const int64_t rank = 1 + static_cast<int64_t>(random() % 5), in = entry.linear.in(),
                    out = entry.part().rows;
      all.push_back({.layer = entry.name(),
                     .a = values({rank, in}, 1 / std::sqrt(static_cast<float>(in)), random),
                     .b = values({out, rank}, 0.2f, random),
                     .scale = 0.5f});
    }
  }
  WanAdapters(const WanAdapters&) = delete;

  std::vector<nn::LowRank> of(std::initializer_list<std::string_view> layers) const {
    std::vector<nn::LowRank> out;
    for (const nn::LowRank& adapter : all)
      if (std::find(layers.begin(), layers.end(), adapter.layer) != layers.end()) out.push_back(adapter);
    return out;
  }

  // Returns W + scale·B·A in float32 for the layers that have an adapter.
  std::shared_ptr<TensorSource> merged(std::span<const nn::LowRank> adapters) const {
    std::vector<TensorSource::Entry> entries(weights_->entries().begin(), weights_->entries().end());
    for (const nn::LowRank& adapter : adapters) {
      const auto entry = std::find_if(entries.begin(), entries.end(),
                                      [&](const auto& e) { return e.name == adapter.layer + ".weight"; });
      check(entry != entries.end(), ErrorCode::not_found, "no weight of {}", adapter.layer);
      const int64_t out = adapter.b.dim(0), rank = adapter.b.dim(1), in = adapter.a.dim(1);
      auto& sums = made_.emplace_back(static_cast<size_t>(out * in));
      ThreadPool pool(1);
      nn::convert_weight(Tensor(const_cast<void*>(entry->data), entry->dtype, {out, in}),
                         Tensor(sums.data(), DType::f32, {out, in}), pool);
      for (int64_t row = 0; row < out; ++row)
        for (int64_t column = 0; column < in; ++column) {
          double sum = 0;
          for (int64_t r = 0; r < rank; ++r)
            sum += double{adapter.b.as<float>()[row * rank + r]} * adapter.a.as<float>()[r * in + column];
          sums[static_cast<size_t>(row * in + column)] += static_cast<float>(adapter.scale * sum);
        }
      entry->data = sums.data(), entry->dtype = DType::f32, entry->bytes = sums.size() * sizeof(float);
    }
    return std::make_shared<TensorSource>(std::move(entries), weights_->files(), weights_->metadata());
  }

 private:
  Tensor values(std::initializer_list<int64_t> dims, float deviation, std::mt19937& random) {
    Tensor t(nullptr, DType::f32, dims);
    std::normal_distribution<float> normal(0, deviation);
    auto& values = made_.emplace_back(static_cast<size_t>(t.numel()));
    for (float& v : values) v = normal(random);
    t.data = values.data();
    return t;
  }

  std::shared_ptr<TensorSource> weights_;
  mutable std::deque<std::vector<float>> made_;
};

}  // namespace tachy::test
