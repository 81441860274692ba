#include "weights/torch/torch_dict.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

#include "base/error.h"
#include "weights/quote.h"

namespace tachy {
namespace {

using Kind = PickleValue::Kind;

constexpr int kMostLevels = 4;
constexpr size_t kMostShown = 8;

// The names, in order of preference. Few-step models run with averaged weights, which checkpoints of
// Self-Forcing, CausVid and DMD store as generator_ema.
constexpr std::string_view kNames[] = {
    "generator_ema", "ema_generator", "state_dict_ema", "ema_state_dict", "model_ema",        "ema_model",
    "ema",           "params_ema",    "shadow",         "state_dict",     "model_state_dict", "model_state",
    "model",         "module",        "generator",      "gen_model",      "transformer",      "dit",
    "net",           "network",       "params",         "weights"};

// Says whether something with this name is no model although it may contain tensors: an optimizer's moments,
// states of random generators, settings.
bool is_bookkeeping(std::string_view name) {
  for (const std::string_view word :
       {"optim", "sched", "rng", "random", "scaler", "callback", "loops", "hyper", "config", "args"})
    if (name.find(word) != name.npos) return true;
  return false;
}

struct Found {
  PickleIndex dict = 0;
  std::string path;
  size_t tensors = 0;  // 0 if there is no model
  std::vector<std::string> others;
};

class Search {
 public:
  Search(const Pickle& pickle, const std::string& file) : pickle_(pickle), file_(file) {}

  // Finds the model in the dict `index` or in one inside it. Each dict is examined once, however many dicts
  // refer to it.
  Found in(PickleIndex index, int level) {
    const auto [known, added] = seen_.emplace(index, Found{});
    if (!added) return known->second;
    std::vector<std::pair<std::string, Found>> inner;
    Found own{.dict = index, .path = "", .tensors = 0, .others = {}};
    size_t counts = 0;
    const auto& items = pickle_[index].items;
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      const PickleValue &key = pickle_[items[i]], &value = pickle_[items[i + 1]];
      if (key.kind != Kind::string) continue;
      if (key.text == "param_groups") return {};  // this dict is an optimizer
      if (is_tensor(value)) ++(is_count(value) ? counts : own.tensors);
      if (value.kind != Kind::dict || level == kMostLevels || is_bookkeeping(key.text)) continue;
      if (Found found = in(items[i + 1], level + 1); found.tensors > 0)
        inner.emplace_back(key.text, std::move(found));
    }
    if (inner.empty()) own.tensors += counts;
    Found out = chosen(std::move(own), std::move(inner));
    seen_[index] = out;
    return out;
  }

 private:
  static size_t rank(std::string_view name) {
    return static_cast<size_t>(std::find(std::begin(kNames), std::end(kNames), name) - std::begin(kNames));
  }

  // Says whether a tensor is a single number, as counts of steps are.
  static bool is_count(const PickleValue& tensor) {
    return tensor.kind == Kind::tensor &&
           std::all_of(tensor.dims.begin(), tensor.dims.end(), [](int64_t extent) { return extent == 1; });
  }

  // Chooses between a dict's own tensors and the models in it. A model with less than half as many tensors as
  // another one is a part of that one, or an average that had not begun.
  Found chosen(Found own, std::vector<std::pair<std::string, Found>> inner) const {
    size_t most = 0;
    for (const auto& [name, found] : inner) most = std::max(most, found.tensors);
    const auto known = [](const auto& item) { return rank(item.first) < std::size(kNames); };
    const bool named = std::any_of(inner.begin(), inner.end(), known);
    if (own.tensors > most || (own.tensors == most && !named)) return own;
    const auto better = [&](const auto& a, const auto& b) {
      const bool whole_a = 2 * a.second.tensors >= most, whole_b = 2 * b.second.tensors >= most;
      return std::pair(!whole_a, rank(a.first)) < std::pair(!whole_b, rank(b.first));
    };
    std::stable_sort(inner.begin(), inner.end(), better);
    const bool guessed =
        inner.size() > 1 && rank(inner[0].first) == std::size(kNames) && 2 * inner[1].second.tensors >= most;
    check(!guessed, ErrorCode::unsupported,
          "{}: it holds several sets of tensors, {} and {} among them, and which is the model cannot be "
          "told; save that alone with Python: torch.save(torch.load(path)[{}], new_path)",
          file_, in_quotes(inner[0].first), in_quotes(inner.size() > 1 ? inner[1].first : ""),
          in_quotes(inner[0].first));
    Found out = std::move(inner[0].second);
    out.path = inner[0].first + (out.path.empty() ? "" : "." + out.path);
    for (size_t i = 1; i < inner.size(); ++i)
      if (known(inner[i]) || 2 * inner[i].second.tensors >= most) out.others.push_back(inner[i].first);
    return out;
  }

  const Pickle& pickle_;
  const std::string& file_;
  std::map<PickleIndex, Found> seen_;
};

}  // namespace

bool is_tensor(const PickleValue& value) {
  // This includes quantised tensors and those on other devices or of other classes, which torch rebuilds with
  // special functions.
  const bool rebuilt = value.kind == Kind::opaque && (value.text.starts_with("torch._utils._rebuild") ||
                                                      value.text.starts_with("torch._tensor._rebuild"));
  return value.kind == Kind::tensor || rebuilt;
}

ModelDict model_dict(const Pickle& pickle, const std::string& file) {
  check(pickle[pickle.root].kind == Kind::dict, ErrorCode::unsupported,
        "{}: expected a dict of tensors at the top of the pickle{}", file,
        pickle[pickle.root].kind == Kind::opaque ? fmt::format(", got an object of {}: save its state_dict()",
                                                               printable(pickle[pickle.root].text, 80))
                                                 : "");
  const Found found = Search(pickle, file).in(pickle.root, 0);
  check(found.tensors > 0, ErrorCode::unsupported,
        "{}: no tensors of a model in the top dict, nor under its keys ({} and the like)", file,
        fmt::join(std::begin(kNames), std::begin(kNames) + kMostShown, ", "));
  ModelDict out{.dict = &pickle[found.dict], .path = found.path, .said = ""};
  if (found.others.empty()) return out;
  std::vector<std::string> others;
  for (const std::string& name : found.others)
    if (others.size() < kMostShown) others.push_back(in_quotes(name, 60));
  out.said = fmt::format(
      "of its sets of tensors {} is taken; {} would be used if it was saved alone with Python: "
      "torch.save(torch.load(path)[{}], new_path)",
      in_quotes(out.path), fmt::join(others, " or "), others.front());
  return out;
}

}  // namespace tachy
