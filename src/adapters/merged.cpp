#include "adapters/merged.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "cpu/widen.h"

namespace tachy {
namespace {

class MergedTensor final : public DerivedTensor {
 public:
  MergedTensor(std::shared_ptr<const TensorSource> base, const TensorSource::Entry& entry,
               std::vector<WeightedChange> changes)
      : base_(std::move(base)), entry_(entry), changes_(std::move(changes)) {}

  std::string_view encoding() const override { return "merged"; }

  void decode(int64_t first, const Tensor& rows) const override {
    if (entry_.derived) {
      entry_.derived->decode(first, rows);
    } else {
      const int64_t begin = first * rows.dim(1) * dtype_size(entry_.dtype);
      cpu::widen(static_cast<const char*>(entry_.data) + begin, entry_.dtype, rows.numel(), rows.as<float>());
    }
    for (const WeightedChange& c : changes_) apply_change(*c.change, c.strength, first, rows);
  }

 private:
  std::shared_ptr<const TensorSource> base_;
  TensorSource::Entry entry_;
  std::vector<WeightedChange> changes_;
};

// Returns the dtype of a merged tensor. A file's 16 bits are kept, since other ways to merge into such a file
// also give 16 bits. 8 bits, with or without scales, suggest no dtype, so the sum stays float32.
DType kept_in(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16 ? dtype : DType::f32; }

}  // namespace

std::shared_ptr<TensorSource> merged_source(const std::shared_ptr<TensorSource>& base,
                                            const std::vector<WeightedChange>& changes) {
  std::map<std::string, std::vector<WeightedChange>, std::less<>> by_tensor;
  auto files = base->files();
  for (const WeightedChange& c : changes) {
    by_tensor[c.change->tensor].push_back(c);
    for (const auto& file : c.file->files())
      if (std::ranges::find(files, file) == files.end()) files.push_back(file);
  }
  std::vector<TensorSource::Entry> entries(base->entries().begin(), base->entries().end());
  for (TensorSource::Entry& entry : entries) {
    const auto found = by_tensor.find(entry.name);
    if (found == by_tensor.end()) continue;
    check(entry.unusable.empty(), ErrorCode::unsupported, "{}: tensor '{}': {}", base->file_of(entry),
          entry.name, entry.unusable);
    check(entry.derived || cpu::widens(entry.dtype), ErrorCode::unsupported,
          "{}: tensor '{}' is {}: no adapter can be merged into it", base->file_of(entry), entry.name,
          dtype_name(entry.dtype));
    auto merged = std::make_shared<const MergedTensor>(base, entry, std::move(found->second));
    entry.dtype = kept_in(entry.dtype);
    entry.data = nullptr;
    entry.derived = std::move(merged);
    by_tensor.erase(found);
  }
  check(by_tensor.empty(), ErrorCode::internal, "adapters: no tensor '{}' to merge into",
        by_tensor.empty() ? "" : by_tensor.begin()->first);
  return std::make_shared<TensorSource>(std::move(entries), std::move(files), base->metadata());
}

}  // namespace tachy
