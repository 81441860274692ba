#include "ops/impl_table.h"

#include <map>
#include <mutex>
#include <set>

#include "base/env.h"
#include "base/log.h"
#include "cpu/isa.h"

namespace tachy::ops {
namespace {

std::map<std::string, std::string, std::less<>>& overrides() {
  static std::map<std::string, std::string, std::less<>> map = [] {
    std::map<std::string, std::string, std::less<>> out;
    for (const auto& part : split(env_string("TACHY_FORCE", ""), ',')) {
      const size_t colon = part.find(':');
      if (colon != std::string::npos)
        out[part.substr(0, colon)] = part.substr(colon + 1);
      else
        warn("TACHY_FORCE: expected op:implementation, got '{}'", part);
    }
    return out;
  }();
  return map;
}

}  // namespace

std::optional<std::string> forced_impl(const char* op) {
  cpu::isa();  // no op is picked under a TACHY_ISA that means nothing
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

void report_pick(const char* op, const char* name, const std::string& reasons) {
  // A better kernel that this GPU lacks the means for is worth a line without being asked, once an op.
  const bool lacking = reasons.find("compute capability") != std::string::npos ||
                       reasons.find("this GPU has") != std::string::npos;
  if (!lacking && !log_enabled("dispatch")) return;
  static std::mutex mutex;
  static std::set<std::string> seen, warned;
  if (lacking) {
    std::lock_guard lock(mutex);
    if (warned.insert(op).second) warn("{}: {} takes the place of faster kernels ({})", op, name, reasons);
  }
  if (!log_enabled("dispatch")) return;
  std::string line = fmt::format("{}: {}{}{}{}", op, name, reasons.empty() ? "" : " (not ", reasons,
                                 reasons.empty() ? "" : ")");
  std::lock_guard lock(mutex);
  if (seen.insert(line).second) log_line("dispatch", line);
}

}  // namespace tachy::ops
