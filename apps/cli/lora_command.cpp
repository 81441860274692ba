// `tachyscope lora` prints the report on an adapter's file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "api/tachyscope.h"
#include "base/json_text.h"
#include "commands.h"
#include "field_options.h"
#include "generate_options.h"
#include "report/lora_report.h"

namespace tachy::cli {
namespace {

using nlohmann::json;

constexpr size_t kShown = 20;

struct LoraOptions {
  std::string lora, model;
  EngineOptions engine;
  bool strict = false, json = false;
};

json to_json(const LoraReport& r) {
  json parts = json::object(), groups = json::array(), unmatched = json::array();
  for (const LoraReport::Part& p : r.parts) parts[p.name] = p.changed;
  for (const LoraReport::Group& g : r.groups)
    groups.push_back({{"name", g.name}, {"tensors", g.tensors}, {"relative_change", g.relative}});
  for (const LoraReport::Left& u : r.unmatched) unmatched.push_back({{"key", u.key}, {"reason", u.reason}});
  return {{"path", r.path},     {"model", r.model},     {"spelling", r.spelling},
          {"kinds", r.kinds},   {"ranks", r.ranks},     {"scales", r.scales},
          {"layers", r.layers}, {"matched", r.matched}, {"zero_deltas", r.zero},
          {"parts", parts},     {"groups", groups},     {"unmatched", unmatched},
          {"hint", r.hint},     {"expert", r.expert},   {"expert_from", r.expert_from}};
}

void print(const LoraReport& r) {
  fmt::print("{}: {} of {} layers fit {}\n", r.path, r.matched, r.layers, r.model);
  if (!r.spelling.empty()) fmt::print("  {:<10}{}\n", "names", r.spelling);
  if (!r.kinds.empty()) fmt::print("  {:<10}{}\n", "kinds", fmt::join(r.kinds, ", "));
  if (!r.ranks.empty()) fmt::print("  {:<10}{}\n", "ranks", fmt::join(r.ranks, ", "));
  if (!r.scales.empty()) fmt::print("  {:<10}{}\n", "scale", fmt::join(r.scales, ", "));
  if (!r.expert.empty()) fmt::print("  {:<10}{}, by {}\n", "expert", r.expert, r.expert_from);
  if (r.zero > 0) fmt::print("  {} deltas are zeros and change nothing\n", r.zero);
  for (const LoraReport::Part& p : r.parts)
    if (p.changed > 0) fmt::print("  {}: {} tensors change\n", p.name, p.changed);
  if (!r.groups.empty())
    fmt::print("\n{:<20}{:>8}  {}\n", "group", "tensors", "change relative to the weights");
  for (const LoraReport::Group& g : r.groups)
    fmt::print("{:<20}{:>8}  {:.3g} %\n", g.name, g.tensors, 100 * g.relative);
  if (!r.unmatched.empty()) fmt::print("\nleft out\n");
  for (size_t i = 0; i < std::min(kShown, r.unmatched.size()); ++i)
    fmt::print("  {}: {}\n", r.unmatched[i].key, r.unmatched[i].reason);
  if (r.unmatched.size() > kShown)
    fmt::print("  and {} more (--json lists all)\n", r.unmatched.size() - kShown);
  if (!r.hint.empty()) fmt::print("{}\n", r.hint);
}

int run_lora(const LoraOptions& o) {
  const std::filesystem::path model = o.model.empty() ? shipped_model() : std::filesystem::path(o.model);
  const LoraReport report = describe_lora(o.lora, model, part_paths(o.engine));
  if (o.json)
    fmt::print("{}\n", json_text(to_json(report), 2));
  else
    print(report);
  check(report.matched > 0, ErrorCode::not_found, "{}: nothing of it fits the model", report.path);
  check(!o.strict || report.unmatched.empty(), ErrorCode::not_found,
        "{}: {} of {} layers do not fit the model", report.path, report.unmatched.size(), report.layers);
  return 0;
}

}  // namespace

Command add_lora(CommandLine& line) {
  CommandOptions sub =
      line.add_command("lora", "show what an adapter's file holds, and which of its layers fit a model");
  auto o = std::make_shared<LoraOptions>();
  sub.add_option(
         "lora", o->lora,
         "adapter: a file from any trainer or a folder with one; add @high or @low to choose an expert")
      ->required();
  sub.add_option(
      "-m,--model,--ckpt_dir,--model-path", o->model,
      "model's folder, or the file of a transformer (default: the model that ships with Tachyscope)");
  register_model_parts(sub, o->engine, kPartsGroup);
  sub.add_flag("--strict", o->strict, "fail if any layer does not fit");
  sub.add_flag("--json", o->json, "print JSON");
  return [o] { return run_lora(*o); };
}

}  // namespace tachy::cli
