#include "tensor/work_tally.h"

#include <algorithm>
#include <utility>

namespace tachy {
namespace {

thread_local WorkTally* t_current = nullptr;

}  // namespace

const char* work_kind_name(WorkKind kind) {
  switch (kind) {
    case WorkKind::pass:
      return "passes";
    case WorkKind::product:
      return "products";
    case WorkKind::attention:
      return "attention";
    case WorkKind::convolution:
      return "convolutions";
    case WorkKind::transfer:
      return "transfers";
  }
  return "?";
}

void WorkTally::begin_stage(std::string_view name) {
  const auto found = std::ranges::find(names_, name);
  stage_ = static_cast<size_t>(found - names_.begin());
  if (found == names_.end()) names_.emplace_back(name);
}

void WorkTally::note(const OpWork& w) {
  if (names_.empty()) begin_stage("");
  calls_[{stage_, w.op, w.kind, w.numbers, w.flops, w.bytes}] += w.calls;
}

void WorkTally::repeat_since(const WorkTally& before, int64_t times) {
  for (auto& [key, calls] : calls_) {
    const auto then = before.calls_.find(key);
    calls += (calls - (then == before.calls_.end() ? 0 : then->second)) * (times - 1);
  }
}

std::vector<WorkTally::Stage> WorkTally::stages() const {
  std::vector<Stage> out;
  for (const std::string& name : names_) out.push_back({name, {}});
  for (const auto& [key, calls] : calls_) {
    const auto& [stage, op, kind, numbers, flops, bytes] = key;
    out[stage].second.push_back({op, kind, numbers, flops, bytes, calls});
  }
  return out;
}

WorkTally* WorkTally::current() { return t_current; }

WorkTally::Counting::Counting(WorkTally& tally) : before_(std::exchange(t_current, &tally)) {}
WorkTally::Counting::~Counting() { t_current = before_; }

double bytes_of(std::initializer_list<Tensor> tensors) {
  double total = 0;
  for (const Tensor& t : tensors)
    if (t.defined()) total += static_cast<double>(t.bytes());
  return total;
}

}  // namespace tachy
