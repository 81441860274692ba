// Scope: a name cursor over a TensorSource. A model's constructor takes one and reads tensors by the literal
// names of the published checkpoint, stating their dims:
//
//   Linear(const Scope& s, int64_t in, int64_t out) : weight(s.tensor("weight", {out, in})) …
//   blocks.emplace_back(s.sub("blocks").sub(i), config);
//
// Copies share one tracker, which knows what was read. load_component() runs a constructor so that all
// missing tensors come in one error and all unused ones in one warning.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"
#include "weights/tensor_source.h"

namespace tachy {

class Scope {
 public:
  // immediate: throws at the first missing tensor. collect: hands out zeros and lets finish() throw with all
  // names, which load_component uses.
  enum class Missing { immediate, collect };

  // plan_only: tensors that would have to be made (TensorSource::Entry::derived) are counted and read as
  // zeros.
  explicit Scope(std::shared_ptr<TensorSource> source, std::string prefix = "",
                 Missing missing = Missing::immediate, bool plan_only = false);

  Scope sub(std::string_view name) const;  // "blocks" then 0 is "blocks.0."; names are joined by '.'
  Scope sub(int64_t index) const { return sub(std::to_string(index)); }

  // Returns a contiguous CPU view in the file's dtype, aligned for it. -1 in dims matches any extent. Throws
  // corrupt for a wrong shape (tensor, expected, found, file) and not_found for a missing tensor. A derived
  // tensor is made once and kept.
  Tensor tensor(std::string_view name, std::initializer_list<int64_t> dims) const {
    return tensor(name, std::span<const int64_t>(dims.begin(), dims.size()));
  }
  Tensor tensor(std::string_view name, std::span<const int64_t> dims) const;
  // The same, but returns nothing when the tensor is absent; the config decides which ones may be absent.
  std::optional<Tensor> optional(std::string_view name, std::initializer_list<int64_t> dims) const;

  // Returns the tensor that tensor() would have to make, for code that keeps it in a form of its own; null if
  // it lies in the file as it is, or is missing. Throws for a wrong shape. Counts as read.
  std::shared_ptr<const DerivedTensor> derived(std::string_view name, std::span<const int64_t> dims) const;

  bool has(std::string_view name) const;                          // does not count as read
  const TensorSource::Entry* entry(std::string_view name) const;  // shape and dtype; does not count as read
  const std::string& prefix() const { return prefix_; }           // "" or "blocks.0."
  const TensorSource& source() const;

  // Call this once on the root after the model is built: it throws not_found listing the missing tensors (at
  // most 20), then warns of unused ones (at most 8) unless they begin with an ignorable prefix.
  void finish(std::string_view component, const std::vector<std::string>& ignorable_prefixes = {}) const;

  // Returns those of `names` (relative to this scope) that the source lacks.
  std::vector<std::string> missing(std::span<const std::string> names) const;

  std::shared_ptr<const void> keep() const { return tracker_; }  // owns the mappings and the aligned copies
  uint64_t mapped_bytes() const;
  // Bytes of tensors that lie unaligned in their file, or were made.
  uint64_t copied_bytes() const;

 private:
  struct Tracker;
  Scope(std::shared_ptr<Tracker> tracker, std::string prefix);
  const TensorSource::Entry& checked(const TensorSource::Entry& entry, std::span<const int64_t> dims) const;

  std::shared_ptr<Tracker> tracker_;
  std::string prefix_;
};

// auto dit = load_component(source, "transformer", {}, [&](const Scope& s) { return WanDit(s, config); });
template <class Make>
auto load_component(std::shared_ptr<TensorSource> source, std::string_view component,
                    const std::vector<std::string>& ignorable_prefixes, Make&& make, bool plan_only = false) {
  const Scope root(std::move(source), "", Scope::Missing::collect, plan_only);
  auto made = make(root);
  root.finish(component, ignorable_prefixes);
  return made;
}

}  // namespace tachy
