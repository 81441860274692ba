#include "ops/impl_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "base/env.h"
#include "base/log.h"
#include "cpu/isa.h"
#include "ops/implementations.h"
#include "ops/pick_record.h"

namespace tachy::ops {
namespace {

std::map<std::string, std::string, std::less<>>& overrides() {
  static std::map<std::string, std::string, std::less<>> map = parse_forced(env_string("TACHY_FORCE", ""));
  return map;
}

std::vector<std::string> all_ops() {
  std::vector<std::string> names{
      "attention8"};  // calls of attention that may round to 8 bits (attention.cpp)
  for (const OpImplementations& o : all_implementations()) names.push_back(o.op);
  for (const std::string& op : backward_ops()) names.push_back(op);
  return names;
}

}  // namespace

std::map<std::string, std::string, std::less<>> parse_forced(std::string_view text) {
  std::map<std::string, std::string, std::less<>> out;
  for (const auto& part : split(text, ',')) {
    const size_t colon = part.find(':');
    require(colon != std::string::npos, "TACHY_FORCE: expected op:implementation, got '{}'", part);
    const std::string op = part.substr(0, colon);
    const std::vector<std::string> ops = all_ops();
    if (std::ranges::find(ops, op) == ops.end())
      fail(ErrorCode::invalid_argument, "TACHY_FORCE: no op is named '{}'; there are {}", op,
           fmt::join(ops, ", "));
    out[op] = part.substr(colon + 1);
  }
  return out;
}

std::optional<std::string> forced_impl(const char* op) {
  cpu::isa();  // fails before any op is picked if TACHY_ISA has no valid value
  const auto& map = overrides();
  if (map.empty()) return std::nullopt;
  const auto it = map.find(std::string_view(op));
  return it == map.end() ? std::nullopt : std::optional(it->second);
}

void set_forced_impl(const char* op, const char* name) {
  if (name)
    overrides()[op] = name;
  else
    overrides().erase(op);
}

std::string describe(std::span<const PassedOver> passed) {
  std::string text;
  for (const PassedOver& p : passed)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", p.impl, p.why.text());
  return text;
}

void fail_without_pick(const char* op, std::span<const PassedOver> passed) {
  const auto forced = forced_impl(op);
  const auto named = [&](const PassedOver& p) { return p.impl == forced.value_or(p.impl); };
  if (!passed.empty() && std::ranges::none_of(passed, named)) {
    std::string names;
    for (const PassedOver& p : passed) names += (names.empty() ? "" : ", ") + std::string(p.impl);
    fail(ErrorCode::invalid_argument,
         "TACHY_FORCE: {} has no implementation '{}' for this device; there are {}", op, *forced, names);
  }
  fail(ErrorCode::unsupported, "{}: no implementation{}: {}", op,
       forced ? fmt::format(" named '{}' (TACHY_FORCE)", *forced) : "",
       passed.empty() ? "none known" : describe(passed));
}

void report_pick(const char* op, const char* name, std::span<const PassedOver> passed, const Stream& stream) {
  if (stream.hooks.picks && stream.measuring()) stream.hooks.picks->note(op, name, describe(passed));
  if (stream.hooks.planned && !stream.measuring()) stream.hooks.planned->note(op, name);
  // If this GPU lacks something that a better kernel needs, that is reported once per op without being asked
  // for.
  const bool weak = std::any_of(passed.begin(), passed.end(),
                                [](const PassedOver& p) { return p.why.why == Refusal::Why::weak_gpu; });
  const bool log = log_enabled("dispatch");
  if (!weak && !log) return;
  static std::mutex mutex;
  static std::set<std::string> seen, warned;
  const std::string reasons = describe(passed);
  std::lock_guard lock(mutex);
  if (weak && warned.insert(op).second)
    warn("{}: {} takes the place of faster kernels ({})", op, name, reasons);
  if (!log) return;
  std::string line = fmt::format("{}: {}", op, name);
  if (!passed.empty()) line += fmt::format(" (not {})", reasons);
  if (seen.insert(line).second) log_line("dispatch", line);
}

}  // namespace tachy::ops
