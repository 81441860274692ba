#include "weights/plain_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "weights/entry_values.h"

namespace tachy {
namespace {

using Entry = TensorSource::Entry;

class NarrowedTensor final : public DerivedTensor {
 public:
  NarrowedTensor(const Entry& entry, std::shared_ptr<const MappedFile> file)
      : entry_(entry), file_(std::move(file)) {}
  std::string_view encoding() const override { return dtype_name(DType::f64); }
  void decode(int64_t first, const Tensor& rows) const override {
    if (rows.numel() == 0) return;
    check(rows.dtype == DType::f32 && rows.contiguous(), ErrorCode::internal, "{}: narrowed to {}",
          entry_.name, dtype_name(rows.dtype));
    entry_values(entry_, first * (rows.numel() / rows.dim(0)),
                 {static_cast<float*>(rows.data), static_cast<size_t>(rows.numel())});
  }

 private:
  Entry entry_;
  std::shared_ptr<const MappedFile> file_;
};

}  // namespace

bool is_weight_name(std::string_view name) {
  const std::string_view leaf = name.substr(name.rfind('.') + 1);
  for (const std::string_view weight : {"weight", "bias", "gamma", "beta", "modulation", "scale_shift_table"})
    if (leaf == weight) return true;
  return leaf.ends_with("embedding") || leaf.ends_with("pos_embed") || leaf.ends_with("emb_pos");
}

std::shared_ptr<TensorSource> plain_values(const std::shared_ptr<TensorSource>& source) {
  const auto is_double = [](const Entry& e) {
    return !e.derived && e.unusable.empty() && e.dtype == DType::f64;
  };
  const auto is_integer = [](const Entry& e) {
    return !e.derived && e.unusable.empty() && !is_float(e.dtype) && is_weight_name(e.name);
  };
  if (std::ranges::none_of(source->entries(), [&](const Entry& e) { return is_double(e) || is_integer(e); }))
    return source;
  std::vector<Entry> entries(source->entries().begin(), source->entries().end());
  for (Entry& entry : entries) {
    if (is_double(entry)) {
      entry.derived = std::make_shared<NarrowedTensor>(entry, source->files().at(entry.file));
      entry.dtype = DType::f32, entry.data = nullptr;
    } else if (is_integer(entry)) {
      entry.unusable = fmt::format(
          "its values are whole numbers ({}) without a scale or a format that says what they mean; a weight "
          "has floats",
          dtype_name(entry.dtype));
    }
  }
  return std::make_shared<TensorSource>(std::move(entries), source->files(), source->metadata());
}

}  // namespace tachy
