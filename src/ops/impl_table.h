// Dispatch by implementation: each op has one table, best first, its definition ("ref") last. The pick is the
// first entry whose `why_not` returns nothing. TACHY_LOG=dispatch prints each distinct pick once with the
// reasons of the entries before it; TACHY_FORCE=attention:ref,gemm:f32 overrides it. A stream with
// `definitions` (level none) takes the definitions.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "tensor/memory.h"

namespace tachy::ops {

template <class Args>
struct Impl {
  const char* name;
  std::optional<std::string> (*why_not)(const Args&, const Stream&);  // nothing, or the reason it cannot run
  void (*run)(const Args&, Stream&);
  Device device = Device::cpu;  // whose tensors it takes
};

// Nothing, or the reason why this entry cannot run on this stream.
template <class Args>
std::optional<std::string> why_not(const Impl<Args>& impl, const Args& args, const Stream& stream) {
  if (impl.device != stream.device())
    return impl.device == Device::cuda ? "it needs a GPU" : "the tensors are on the GPU";
  return impl.why_not ? impl.why_not(args, stream) : std::nullopt;
}

std::optional<std::string> forced_impl(const char* op);  // from TACHY_FORCE
void set_forced_impl(const char* op, const char* name);  // for the op runner; nullptr clears
void report_pick(const char* op, const char* name, const std::string& reasons);

template <class Args>
const Impl<Args>& pick(const char* op, std::span<const Impl<Args>> table, const Args& args,
                       const Stream& stream) {
  const auto forced = forced_impl(op);
  std::string reasons;
  for (const Impl<Args>& impl : table) {
    if (forced && *forced != impl.name) continue;
    if (!forced && stream.definitions && std::string_view(impl.name) != "ref") continue;
    const auto reason = why_not(impl, args, stream);
    if (!reason) {
      report_pick(op, impl.name, reasons);
      return impl;
    }
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", impl.name, *reason);
  }
  fail(ErrorCode::unsupported, "{}: no implementation{}: {}", op,
       forced ? fmt::format(" named '{}' (TACHY_FORCE)", *forced) : "",
       reasons.empty() ? "none known" : reasons);
}

}  // namespace tachy::ops
