// Dispatch by implementation: each op has one table, with the best implementation first and its definition
// ("ref") last. `choose` is the only rule that picks from a table; nothing else searches one.
// TACHY_LOG=dispatch prints each distinct pick once with the reasons of the entries before it;
// TACHY_FORCE=attention:ref,gemm:f32 overrides the order. A stream with `definitions` (level none) takes the
// definitions, and a stream that switches an implementation off (without.h) passes over it.
//
// The implementation that the plan chose is the one that runs: both use the rule. A refusal may depend on
// shapes, strides, dtypes, options, alignments, the stream's precision and the machine, all of which are the
// same in the measure run (planned_address in tensor/memory.h), but never on values in memory. The plan's
// choices are not looked up by a description of the call: it would have to hold all of this, up to a kilobyte
// of tensors, whereas the rule takes 14 to 90 ns (0.8 µs for a convolution: bench/notes/cpu.md). Each
// computing run is compared with its plan nevertheless (Hooks::planned).
//
// An implementation on the GPU is an entry made by gpu_impl. In a build without CUDA its functions are not
// defined, and the entry has none: it keeps its name and its place, and says that the build lacks it. It runs
// with the stream's GPU as the thread's current one, whichever was current before.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/refusal.h"
#include "cuda/built.h"
#include "cuda/current_device.h"
#include "tensor/stream.h"

namespace tachy::ops {

// Returns nothing, or the reason why the implementation cannot run.
template <class Args>
using WhyNot = std::optional<Refusal>(const Args&, const Stream&);

template <class Args>
struct Impl {
  const char* name;
  WhyNot<Args>* why_not;                // if null, it can always run
  void (*run)(const Args&, Stream&);    // null if this build lacks it
  DeviceType device = DeviceType::cpu;  // device of the tensors that it takes
};

template <class Args>
struct GpuFunctions {  // deduces Args from a launcher
  constexpr explicit GpuFunctions(void (*)(const Args&, Stream&)) {}
  using Arguments = Args;
  using Entry = Impl<Args>;
  using Reason = WhyNot<Args>*;
};

// The functions are template arguments, so that a build without CUDA can name them without linking them.
template <auto kRun, auto kWhyNot = nullptr>
constexpr auto gpu_impl(const char* name) {
  using Functions = decltype(GpuFunctions(kRun));
  static_assert(std::is_convertible_v<decltype(kWhyNot), typename Functions::Reason>);
  if constexpr (cuda::kBuilt) {
    constexpr auto run = [](const typename Functions::Arguments& args, Stream& stream) {
      const cuda::CurrentDevice current(stream.gpu);
      kRun(args, stream);
    };
    return typename Functions::Entry{name, kWhyNot, run, DeviceType::cuda};
  } else {
    return typename Functions::Entry{name, nullptr, nullptr, DeviceType::cuda};
  }
}

// Returns nothing, or the reason why this entry cannot run on this stream.
template <class Args>
std::optional<Refusal> why_not(const Impl<Args>& impl, const Args& args, const Stream& stream) {
  if (impl.device != stream.device_type())
    return Refusal{Refusal::Why::other_device,
                   impl.device == DeviceType::cuda ? "it needs a GPU" : "the tensors are on the GPU"};
  if (!impl.run || (impl.device == DeviceType::cuda && !cuda::kernels_here()))
    return Refusal{Refusal::Why::not_built, "this build lacks it"};
  return impl.why_not ? impl.why_not(args, stream) : std::nullopt;
}

// The implementations that `text`, which has the form of TACHY_FORCE, names for each op. Throws `invalid_argument`
// for an op that does not exist and for a part without a colon.
std::map<std::string, std::string, std::less<>> parse_forced(std::string_view text);
std::optional<std::string> forced_impl(const char* op);  // from TACHY_FORCE
void set_forced_impl(const char* op, const char* name);  // for the op runner; nullptr clears

// An entry that the rule passed over although it is for the stream's device.
struct PassedOver {
  const char* impl;
  Refusal why;
};
std::string describe(std::span<const PassedOver> passed);  // "split: bf16 is asked for; f32: …"

template <class Args>
bool is_definition(const Impl<Args>& impl) {
  return std::string_view(impl.name) == "ref";
}

// The rule: it picks the first entry that can run, or with TACHY_FORCE the named one, or at level none the
// definition. Returns null if none can run. `passed` gets the better entries for this device, with the
// reasons why they were not picked.
template <class Args>
const Impl<Args>* choose(const char* op, std::span<const Impl<Args>> table, const Args& args,
                         const Stream& stream, std::vector<PassedOver>* passed = nullptr) {
  const auto forced = forced_impl(op);
  for (const Impl<Args>& impl : table) {
    if (impl.device != stream.device_type()) continue;
    std::optional<Refusal> no;
    if (forced && *forced != impl.name)
      no = Refusal::settings("TACHY_FORCE names another");
    else if (stream.without.kernel(op, impl.name))
      no = Refusal::settings("`without` names it");
    else if (!forced && stream.precision.definitions && !is_definition(impl))
      no = Refusal::settings("level none takes definitions");
    else
      no = why_not(impl, args, stream);
    if (!no) return &impl;
    if (passed) passed->push_back({impl.name, *std::move(no)});
  }
  return nullptr;
}

void report_pick(const char* op, const char* name, std::span<const PassedOver> passed, const Stream& stream);
[[noreturn]] void fail_without_pick(const char* op, std::span<const PassedOver> passed);

// The implementation that an op runs, by the rule. Throws `unsupported`, with each entry's
// reason, if there is none.
template <class Args>
const Impl<Args>& pick(const char* op, std::span<const Impl<Args>> table, const Args& args,
                       const Stream& stream) {
  std::vector<PassedOver> passed;
  const Impl<Args>* impl = choose(op, table, args, stream, &passed);
  if (!impl) fail_without_pick(op, passed);
  report_pick(op, impl->name, passed, stream);
  return *impl;
}

}  // namespace tachy::ops
