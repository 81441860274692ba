// Scope: a prefix for names in a TensorSource. A model's constructor takes one, and reads tensors by the
// literal names of the published checkpoint, with the dims that it expects:
//
//   Linear(const Scope& s, int64_t in, int64_t out) : weight(s.tensor("weight", {out, in})) …
//   blocks.emplace_back(s.sub("blocks").sub(i), config);
//
// Copies share one tracker, which notes what was read. load_component() runs a constructor so that a single
// error lists all missing tensors and a single warning lists all unused ones.
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
  // immediate: the first missing tensor throws. collect: a missing tensor is zeros, and finish() throws with
  // all names; load_component uses this.
  enum class Missing { immediate, collect };

  // With plan_only, tensors that would have to be made (TensorSource::Entry::derived) are counted and read as
  // zeros.
  explicit Scope(std::shared_ptr<TensorSource> source, std::string prefix = "",
                 Missing missing = Missing::immediate, bool plan_only = false);

  Scope sub(std::string_view name) const;  // "blocks" then 0 gives "blocks.0."; names are joined by '.'
  Scope sub(int64_t index) const { return sub(std::to_string(index)); }

  // Returns a contiguous CPU view in the file's dtype, aligned for it. -1 in dims matches any extent. Throws
  // corrupt for a wrong shape (with tensor, expected and found shape, file) and not_found for a missing
  // tensor. A derived tensor is made once and kept.
  Tensor tensor(std::string_view name, std::initializer_list<int64_t> dims) const {
    return tensor(name, std::span<const int64_t>(dims.begin(), dims.size()));
  }
  Tensor tensor(std::string_view name, std::span<const int64_t> dims) const;
  // Returns nothing if the tensor is absent. The config decides which tensors may be absent.
  std::optional<Tensor> optional(std::string_view name, std::initializer_list<int64_t> dims) const;

  // Returns the tensor that tensor() would have to make, for code that keeps it in its own form. Returns null
  // if the tensor is in the file as it is, or is missing. Throws for a wrong shape. Counts as reading it.
  std::shared_ptr<const DerivedTensor> derived(std::string_view name, std::span<const int64_t> dims) const;

  bool has(std::string_view name) const;                          // does not count as reading it
  const TensorSource::Entry* entry(std::string_view name) const;  // shape and dtype; does not count as read
  const std::string& prefix() const { return prefix_; }           // "" or "blocks.0."
  const TensorSource& source() const;

  // Call this once on the root when the model is built. It throws not_found with the missing tensors (at most
  // 20), and then warns of unused ones (at most 8) that begin with no ignorable prefix.
  void finish(std::string_view component, const std::vector<std::string>& ignorable_prefixes = {}) const;

  // Returns those of `names` (relative to this scope) that the source lacks.
  std::vector<std::string> missing(std::span<const std::string> names) const;

  std::shared_ptr<const void> keep() const { return tracker_; }  // owns the mappings and the aligned copies
  uint64_t mapped_bytes() const;
  // Bytes of tensors that are unaligned in their file, or had to be made.
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
