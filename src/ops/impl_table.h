// Dispatch by implementation: each op has one table, best first, its definition ("ref") last. The pick is the
// first entry whose `why_not` returns nothing. TACHY_LOG=dispatch prints each distinct pick once with the
// reasons of the entries before it; TACHY_FORCE=attention:ref,gemm:f32 overrides it. A stream with
// `definitions` (level none) takes the definitions.
//
// An implementation on the GPU is an entry made by gpu_impl. In a build without CUDA nothing defines its
// functions, and the entry holds none: it keeps its name and its place, and says that the build lacks it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "base/error.h"
#include "cuda/built.h"
#include "tensor/memory.h"

namespace tachy::ops {

template <class Args>
using WhyNot = std::optional<std::string>(const Args&, const Stream&);  // nothing, or why it cannot run

template <class Args>
struct Impl {
  const char* name;
  WhyNot<Args>* why_not;              // null: it can always run
  void (*run)(const Args&, Stream&);  // null: this build lacks it
  Device device = Device::cpu;        // whose tensors it takes
};

template <class Args>
struct GpuFunctions {  // deduces Args from a launcher
  constexpr explicit GpuFunctions(void (*)(const Args&, Stream&)) {}
  using Entry = Impl<Args>;
  using Reason = WhyNot<Args>*;
};

// The functions are template arguments, so that a build without CUDA names them without linking them.
template <auto kRun, auto kWhyNot = nullptr>
constexpr auto gpu_impl(const char* name) {
  using Functions = decltype(GpuFunctions(kRun));
  static_assert(std::is_convertible_v<decltype(kWhyNot), typename Functions::Reason>);
  if constexpr (cuda::kBuilt)
    return typename Functions::Entry{name, kWhyNot, kRun, Device::cuda};
  else
    return typename Functions::Entry{name, nullptr, nullptr, Device::cuda};
}

// Nothing, or the reason why this entry cannot run on this stream.
template <class Args>
std::optional<std::string> why_not(const Impl<Args>& impl, const Args& args, const Stream& stream) {
  if (impl.device != stream.device())
    return impl.device == Device::cuda ? "it needs a GPU" : "the tensors are on the GPU";
  if (!impl.run) return "this build lacks it";
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
