#include "inspect/golden_compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "weights/safetensors.h"

namespace tachy {

using nlohmann::json;

TensorFile::Values TensorFile::read(const std::string& name) const {
  const TensorSource::Entry* entry = source_->find(name);
  check(entry != nullptr, ErrorCode::corrupt, "{}: no tensor '{}'", name_, name);
  const Tensor t = scope_.tensor(name, std::span<const int64_t>(entry->dims));
  Values out{entry->dims, std::vector<double>(static_cast<size_t>(t.numel()))};
  for (int64_t i = 0; i < t.numel(); ++i) {
    // A mapped file does not guarantee alignment.
    const char* at = static_cast<const char*>(t.data) + i * dtype_size(t.dtype);
    if (t.dtype == DType::f32) {
      float v;
      std::memcpy(&v, at, sizeof v);
      out.data[static_cast<size_t>(i)] = v;
    } else if (t.dtype == DType::i64) {
      int64_t v;
      std::memcpy(&v, at, sizeof v);
      out.data[static_cast<size_t>(i)] = static_cast<double>(v);
    } else {
      fail(ErrorCode::corrupt, "{}: '{}' is {}, expected f32 or i64", name_, name, dtype_name(t.dtype));
    }
  }
  return out;
}

void compare_values(const TensorFile::Values& got, const TensorFile::Values& want, const json& own,
                    const RunPrecision& precision, Factors factors, double least, Check& check) {
  if (got.dims != want.dims) {
    check.ok = false;
    check.detail = fmt::format("expected {}, got {}", shape_string(want.dims), shape_string(got.dims));
    return;
  }
  double highest = 0, sum = 0;
  bool finite = true;
  for (size_t i = 0; i < want.data.size(); ++i) {
    highest = std::max(highest, std::abs(want.data[i]));
    const double e = std::abs(got.data[i] - want.data[i]);
    finite = finite && std::isfinite(e);
    check.max = std::max(check.max, e), sum += e;
  }
  const double scale = highest > 0 ? highest : 1;
  check.max /= scale, check.mean = sum / static_cast<double>(std::max<size_t>(1, want.data.size())) / scale;
  double mean_bound = 0;
  check.detail = "equal";
  if (!own.empty()) {
    const std::string name = precision.name_in(own);
    const json& errors = own.at(name);
    const double own_max = errors.at("max").get<double>(), own_mean = errors.at("mean").get<double>();
    check.bound = std::max(factors.max * own_max, least);
    mean_bound = std::max(factors.mean * own_mean, least / 10);
    check.detail = fmt::format("mean at most {:.1e}; PyTorch's own {}: {:.1e}, {:.1e}", mean_bound, name,
                               own_max, own_mean);
  }
  check.ok = finite && check.max <= check.bound && check.mean <= mean_bound;
  if (precision.bf16 && !own.empty())
    check.detail += fmt::format("; asked: max < {:g}, mean < {:g}: {}", kBf16Max, kBf16Mean,
                                check.max < kBf16Max && check.mean < kBf16Mean ? "met" : "not met");
  if (!check.ok) check.detail = finite ? "beyond the bound; " + check.detail : "NaN or Inf";
}

}  // namespace tachy
