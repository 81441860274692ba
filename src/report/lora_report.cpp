#include "report/lora_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cpu/widen.h"
#include "session/request_adapters.h"

namespace tachy {
namespace {

constexpr int64_t kSampledRows = 32;

const char* group_of(const std::string& part, const std::string& tensor) {
  const auto has = [&](const char* piece) { return tensor.find(piece) != std::string::npos; };
  if (part == "text encoder") return "text encoder";
  if (has("norm") || has("scale_shift_table")) return "norms, modulation";
  if (has("attn1")) return "self-attention";
  if (has("attn2")) return "cross-attention";
  return has(".ffn.") ? "feed-forward" : "embeddings, head";
}

// Estimates the squared length of a tensor from rows at equal distances.
double norm_squared(const TensorSource::Entry& entry) {
  if (entry.dims.empty() || entry.dims[0] == 0 || !entry.unusable.empty()) return 0;
  if (!entry.derived && !cpu::widens(entry.dtype)) return 0;
  int64_t width = 1;
  for (size_t i = 1; i < entry.dims.size(); ++i) width *= entry.dims[i];
  const int64_t rows = entry.dims[0], taken = std::min(rows, kSampledRows);
  std::vector<float> row(static_cast<size_t>(width));
  double sum = 0;
  for (int64_t i = 0; i < taken; ++i) {
    const int64_t at = i * rows / taken;
    if (entry.derived)
      entry.derived->decode(at, Tensor(row.data(), DType::f32, {1, width}));
    else
      cpu::widen(static_cast<const char*>(entry.data) + at * width * dtype_size(entry.dtype), entry.dtype,
                 width, row.data());
    for (const float v : row) sum += static_cast<double>(v) * v;
  }
  return sum * static_cast<double>(rows) / static_cast<double>(taken);
}

std::vector<std::string> counted(const std::map<std::string, int64_t>& counts, const char* what) {
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [name, count] : counts) order.emplace_back(-count, name);
  std::ranges::sort(order);
  std::vector<std::string> out;
  for (const auto& [count, name] : order) out.push_back(fmt::format("{} ({} {})", name, -count, what));
  return out;
}

std::string spelling_of(const AdapterMatch& match) {
  std::vector<std::string> prefixes = match.prefixes;
  for (std::string& p : prefixes)
    if (p.empty()) p = "nothing";
  return fmt::format("{} names{} behind {}; {}", match.original_names ? "the original's" : "diffusers'",
                     match.underscores ? " with underscores" : "", fmt::join(prefixes, ", "),
                     fmt::join(match.suffixes, ", "));
}

const std::shared_ptr<TensorSource>& source_of(const ModelBundle& model, const std::string& part) {
  if (part == "text encoder") return model.text_encoder;
  return part == "transformer_2" ? model.transformer_2 : model.transformer;
}

}  // namespace

LoraReport describe_lora(const std::string& lora, const std::filesystem::path& path, const PartPaths& parts) {
  const LoraSpec spec = parse_lora(lora);
  const ModelBundle model =
      naming("`model`", [&] { return ModelBundle::open(path, FileAccess::map, parts); });
  const AdapterFile file = naming("`loras`", [&] { return open_adapter(spec.path); });
  const AdapterMatch match = match_adapter(file, ModelNames(model).targets(spec.expert));
  LoraReport out{.path = file.path.string(),
                 .model = path.string(),
                 .spelling = match.matched > 0 ? spelling_of(match) : "",
                 .layers = match.layers,
                 .matched = match.matched,
                 .zero = match.zero,
                 .hint = match.hint};
  out.expert = to_string(match.expert), out.expert_from = match.expert_from;
  std::map<std::string, int64_t> kinds, ranks, scales;
  struct Sums {
    int64_t tensors = 0;
    double change = 0, weight = 0;
  };
  std::map<std::string, Sums> groups;
  for (const AdapterMatch::Part& part : match.parts) {
    const TensorSource& source = *source_of(model, part.name);
    out.parts.push_back({part.name, static_cast<int64_t>(part.changes.size())});
    for (const auto& change : part.changes) {
      ++kinds[kind_name(*change)];
      if (change->rank > 0) ++ranks[fmt::format("{}", change->rank)];
      if (!change->scale_from.empty() && change->rank > 0)
        ++scales[fmt::format("{:.4g} by {}", change->scale, change->scale_from)];
      Sums& sums = groups[group_of(part.name, change->tensor)];
      ++sums.tensors;
      sums.change += change_norm_squared(*change);
      sums.weight += norm_squared(*source.find(change->tensor));
    }
  }
  out.kinds = counted(kinds, "tensors"), out.ranks = counted(ranks, "tensors"),
  out.scales = counted(scales, "tensors");
  for (const auto& [name, sums] : groups)
    out.groups.push_back({name, sums.tensors, sums.weight > 0 ? std::sqrt(sums.change / sums.weight) : 0});
  for (const Unmatched& u : match.unmatched) out.unmatched.push_back({u.key, u.reason});
  return out;
}

}  // namespace tachy
