// The tracker that all copies of a Scope share. It knows which tensors were read, which were missing, and
// which had to be copied because they are unaligned in their file.
#include "weights/scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/os/map.h"
#include "tensor/memory.h"
#include "weights/quote.h"
#include "weights/tensor_range.h"

namespace tachy {
namespace {

constexpr size_t kMissingShown = 20, kUnusedShown = 8;
constexpr size_t kMissingLimit = 256;  // beyond it the file is simply not this model: stop building at once

os::Mapping zeros_of(uint64_t bytes) {
  bytes = std::max<uint64_t>(bytes, 1);
  std::error_code error;
  os::Mapping zeros = os::Mapping::of_zeros(bytes, error);
  check(!error, ErrorCode::out_of_memory, "weights: cannot map {} bytes", bytes);
  return zeros;
}

bool shape_matches(std::span<const int64_t> expected, std::span<const int64_t> found) {
  return std::equal(expected.begin(), expected.end(), found.begin(), found.end(),
                    [](int64_t e, int64_t f) { return e == -1 || e == f; });
}

std::string listed(const std::vector<std::string>& names, size_t limit) {
  const size_t shown = std::min(limit, names.size());
  std::string out =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<int64_t>(shown), ", "));
  if (names.size() > shown) out += fmt::format(" +{} more", names.size() - shown);
  return out;
}

}  // namespace

struct Scope::Tracker {
  std::shared_ptr<TensorSource> source;
  Missing mode;
  bool plan_only = false;
  std::mutex mutex;
  std::vector<bool> used;
  std::vector<std::string> missing;
  std::map<size_t, Buffer> copies;        // by the entry's index
  std::map<size_t, os::Mapping> planned;  // also by index, for tensors that are only counted
  std::vector<os::Mapping> zeros;
  uint64_t copied = 0;

  [[noreturn]] void throw_missing(std::string_view component) const {
    fail(ErrorCode::not_found,
         "{}: {} tensor{} missing from {}: {}; the file is not complete, or the config beside it belongs to "
         "another model",
         component, missing.size(), missing.size() == 1 ? "" : "s", source->files_text(),
         listed(missing, kMissingShown));
  }

  Tensor absent(const std::string& name, std::span<const int64_t> dims) {
    std::lock_guard lock(mutex);
    if (std::find(missing.begin(), missing.end(), name) == missing.end()) missing.push_back(name);
    const auto bytes = checked_bytes(dims, DType::f32);
    if (mode == Missing::immediate || !bytes || missing.size() >= kMissingLimit) throw_missing("weights");
    zeros.push_back(zeros_of(*bytes));
    return Tensor(zeros.back().data(), DType::f32, dims);
  }

  size_t index_of(const TensorSource::Entry& entry) const {
    return static_cast<size_t>(&entry - source->entries().data());
  }

  void mark_used(const TensorSource::Entry& entry) {
    std::lock_guard lock(mutex);
    used[index_of(entry)] = true;
  }

  // Call this with the lock held.
  Tensor made(const TensorSource::Entry& entry) {
    const auto bytes = checked_bytes(entry.dims, entry.dtype);
    check(bytes.has_value(), ErrorCode::corrupt, "{}: tensor {}: its shape is too large",
          source->file_of(entry), in_quotes(entry.name_in_file));
    const auto copy = copies.find(index_of(entry));
    if (copy != copies.end()) return copy->second.tensor(entry.dtype, entry.dims);
    if (plan_only) {  // a tensor is counted once, however often it is read
      os::Mapping& values = planned[index_of(entry)];
      if (!values.data()) values = zeros_of(*bytes), copied += align_up(*bytes);
      return Tensor(values.data(), entry.dtype, entry.dims);
    }
    copied += align_up(*bytes);
    const Tensor out =
        copies.emplace(index_of(entry), Buffer(*bytes)).first->second.tensor(entry.dtype, entry.dims);
    if (out.numel() > 0) decode_values(*entry.derived, out.numel() / out.dim(0), 0, out);
    log_topic("load", "{} was made of {}: {} bytes", entry.name, entry.derived->encoding(), *bytes);
    return out;
  }

  Tensor view(const TensorSource::Entry& entry) {
    const auto align = static_cast<uintptr_t>(dtype_size(entry.dtype));
    void* data = const_cast<void*>(entry.data);
    std::lock_guard lock(mutex);
    const size_t index = index_of(entry);
    used[index] = true;
    if (entry.derived) return made(entry);
    if (reinterpret_cast<uintptr_t>(data) % align != 0 && entry.bytes > 0) {
      Buffer& copy = copies[index];
      if (!copy.data()) {
        copy = Buffer(entry.bytes);
        std::memcpy(copy.data(), data, entry.bytes);
        copied += align_up(entry.bytes);
        log_topic("load", "{} lies unaligned in its file: copied {} bytes", entry.name, entry.bytes);
      }
      data = copy.data();
    }
    return Tensor(data, entry.dtype, entry.dims);
  }
};

Scope::Scope(std::shared_ptr<TensorSource> source, std::string prefix, Missing missing, bool plan_only)
    : tracker_(std::make_shared<Tracker>()), prefix_(std::move(prefix)) {
  require(source != nullptr, "Scope: expected a source");
  if (!prefix_.empty() && prefix_.back() != '.') prefix_ += '.';
  tracker_->used.resize(source->entries().size());
  tracker_->mode = missing;
  tracker_->plan_only = plan_only;
  tracker_->source = std::move(source);
}

Scope::Scope(std::shared_ptr<Tracker> tracker, std::string prefix)
    : tracker_(std::move(tracker)), prefix_(std::move(prefix)) {}

Scope Scope::sub(std::string_view name) const {
  return name.empty() ? *this : Scope(tracker_, prefix_ + std::string(name) + '.');
}

const TensorSource& Scope::source() const { return *tracker_->source; }
uint64_t Scope::mapped_bytes() const { return tracker_->source->mapped_bytes(); }
uint64_t Scope::copied_bytes() const { return tracker_->copied; }

const TensorSource::Entry* Scope::entry(std::string_view name) const {
  return tracker_->source->find(prefix_ + std::string(name));
}
bool Scope::has(std::string_view name) const { return entry(name) != nullptr; }

const TensorSource::Entry& Scope::checked(const TensorSource::Entry& entry,
                                          std::span<const int64_t> dims) const {
  const auto shown = [&] {
    return entry.name == entry.name_in_file
               ? in_quotes(entry.name)
               : fmt::format("{} ({} in the file)", in_quotes(entry.name), in_quotes(entry.name_in_file));
  };
  if (!entry.unusable.empty()) {
    fail(ErrorCode::unsupported, "{}: tensor {}: {}", source().file_of(entry), shown(), entry.unusable);
  }
  if (!shape_matches(dims, entry.dims)) {
    fail(ErrorCode::corrupt, "{}: tensor {}: expected shape {}, got {}", source().file_of(entry), shown(),
         shape_string(dims), shape_string(entry.dims));
  }
  return entry;
}

Tensor Scope::tensor(std::string_view name, std::span<const int64_t> dims) const {
  const auto* found = entry(name);
  if (!found) return tracker_->absent(prefix_ + std::string(name), dims);
  return tracker_->view(checked(*found, dims));
}

std::shared_ptr<const DerivedTensor> Scope::derived(std::string_view name,
                                                    std::span<const int64_t> dims) const {
  const auto* found = entry(name);
  if (!found || !found->derived) return nullptr;
  tracker_->mark_used(checked(*found, dims));
  return found->derived;
}

std::optional<Tensor> Scope::optional(std::string_view name, std::initializer_list<int64_t> dims) const {
  if (!has(name)) return std::nullopt;
  return tensor(name, dims);
}

std::vector<std::string> Scope::missing(std::span<const std::string> names) const {
  std::vector<std::string> out;
  for (const auto& name : names) {
    if (!has(name)) out.push_back(prefix_ + name);
  }
  return out;
}

void Scope::finish(std::string_view component, const std::vector<std::string>& ignorable_prefixes) const {
  const Tracker& tracker = *tracker_;
  if (!tracker.missing.empty()) tracker.throw_missing(component);
  std::vector<std::string> unused;
  const auto entries = tracker.source->entries();
  for (size_t i = 0; i < entries.size(); ++i) {
    const bool ignorable = std::any_of(ignorable_prefixes.begin(), ignorable_prefixes.end(),
                                       [&](const auto& p) { return entries[i].name.starts_with(p); });
    if (!tracker.used[i] && !ignorable) unused.push_back(printable(entries[i].name_in_file));
  }
  if (unused.empty()) return;
  warn("{}: {} tensor{} of {} not used: {}", component, unused.size(), unused.size() == 1 ? "" : "s",
       tracker.source->files_text(), listed(unused, kUnusedShown));
}

}  // namespace tachy
