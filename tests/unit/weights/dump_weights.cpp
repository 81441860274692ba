// dump_weights IN OUT.safetensors writes every float tensor of any weights file as float32. It is used by
// tests/reference, and with --time shows how fast each type is decoded.
#include <chrono>
#include <cstdio>
#include <deque>
#include <string>
#include <string_view>

#include "base/error.h"
#include "weights/safetensors.h"
#include "weights/scope.h"

namespace tachy {
namespace {

float value_at(const Tensor& t, int64_t i) {
  switch (t.dtype) {
    case DType::f32:
      return t.as<float>()[i];
    case DType::f16:
      return to_float(t.as<f16_t>()[i]);
    case DType::bf16:
      return to_float(t.as<bf16_t>()[i]);
    default:
      return static_cast<float>(t.as<double>()[i]);
  }
}

int64_t count_of(const TensorSource::Entry& entry) {
  int64_t count = 1;
  for (const int64_t extent : entry.dims) count *= extent;
  return count;
}

void dump(const Scope& scope, const char* to) {
  std::deque<std::vector<float>> values;
  std::vector<NamedTensor> out;
  for (const auto& entry : scope.source().entries()) {
    if (!entry.unusable.empty() || !is_float(entry.dtype)) continue;
    auto& made = values.emplace_back(static_cast<size_t>(count_of(entry)));
    const Tensor tensor(made.data(), DType::f32, entry.dims);
    if (entry.derived) {
      const int64_t rows = entry.dims[0];
      entry.derived->decode(0, tensor.view({rows, tensor.numel() / rows}));
    } else {
      const Tensor stored = scope.tensor(entry.name, std::span<const int64_t>(entry.dims));
      for (int64_t i = 0; i < tensor.numel(); ++i) made[static_cast<size_t>(i)] = value_at(stored, i);
    }
    out.push_back({entry.name, tensor});
  }
  write_safetensors(to, std::move(out));
}

// Times decoding in slabs that stay in the cache, as products use them.
void time_types(const TensorSource& source) {
  constexpr int64_t kSlab = 1 << 16;
  constexpr double kSeconds = 0.3;
  std::vector<float> slab(kSlab);
  for (const auto& entry : source.entries()) {
    if (!entry.derived || count_of(entry) < kSlab) continue;
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    const int64_t slabs = count_of(entry) / kSlab;
    int64_t done = 0;
    double seconds = 0;
    for (; seconds < kSeconds; ++done, seconds = std::chrono::duration<double>(Clock::now() - begin).count())
      entry.derived->decode(done % slabs, Tensor(slab.data(), DType::f32, {1, kSlab}));
    std::printf("%-8.*s %6.2f GB/s of float32\n", static_cast<int>(entry.derived->encoding().size()),
                entry.derived->encoding().data(), static_cast<double>(done) * kSlab * 4e-9 / seconds);
  }
}

}  // namespace
}  // namespace tachy

int main(int count, char** arguments) {
  using namespace tachy;
  try {
    require(count == 3, "dump_weights: expected IN and OUT.safetensors, or --time and IN");
    if (std::string_view(arguments[1]) == "--time")
      time_types(*open_weights(arguments[2]));
    else
      dump(Scope(open_weights(arguments[1])), arguments[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
