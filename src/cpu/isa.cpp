#include "cpu/isa.h"

#include <hwy/targets.h>

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

#include "base/error.h"

namespace tachy::cpu {
namespace {

constexpr const char* kBuildAll =
    "make build, or CMake with TACHY_CPU_TARGETS=all, makes a program for any CPU";

#if defined(__x86_64__)
// A better target has a lower bit; the result has all that are better than the limit.
int64_t better_targets(Isa limit) {
  return limit == Isa::sse4 ? HWY_SSE4 - 1 : limit == Isa::avx2 ? HWY_AVX2 - 1 : 0;
}

dnnl_cpu_isa_t onednn_limit(Isa limit) {
  return limit == Isa::sse4   ? dnnl_cpu_isa_sse41
         : limit == Isa::avx2 ? dnnl_cpu_isa_avx2
                              : dnnl_cpu_isa_avx512_core_bf16;
}

void apply(Isa limit) {
  if (limit == Isa::native) return;
  check((HWY_TARGETS & ~better_targets(limit)) != 0, ErrorCode::unsupported,
        "TACHY_ISA: '{}' is less than {}, and this program has kernels for nothing else: {}", isa_name(limit),
        compiled_for(), kBuildAll);
  hwy::DisableTargets(better_targets(limit));
  const dnnl_status_t status = dnnl_set_max_cpu_isa(onednn_limit(limit));
  check(status == dnnl_success, ErrorCode::unsupported,
        "TACHY_ISA: oneDNN does not keep to '{}' (status {}): it has run already, or was built without such "
        "a limit",
        isa_name(limit), static_cast<int>(status));
}
#else
void apply(Isa) {}  // there is only the native instruction set
#endif

// Refuses to run a program that was built for the CPU of another machine, if this one has less.
void check_cpu() {
  check((hwy::SupportedTargets() & HWY_TARGETS) != 0, ErrorCode::unsupported,
        "this program was built for CPUs with {} alone, which this one does not have: {}", compiled_for(),
        kBuildAll);
}

// Chooses among what is not disabled, and returns it.
int64_t choose_target() {
  const int64_t supported = hwy::SupportedTargets();
  hwy::GetChosenTarget().Update(supported);
  const int64_t usable = supported & HWY_TARGETS;
  return usable & -usable;  // the best target is the lowest bit
}

struct Limit {
  Isa isa = Isa::native;
  int64_t target = 0;
  std::optional<Error> wrong;
  Limit() {
    try {
      check_cpu();
      isa = isa_asked();
      apply(isa);
      target = choose_target();
    } catch (const Error& error) {
      wrong = error;
    }
  }
};

Limit& limit() {
  static Limit limit;
  return limit;
}

// This happens before main, and so before any kernel is chosen. This file is part of every program that has
// an op, because the ops' dispatch calls isa().
[[maybe_unused]] const Limit& applied = limit();

}  // namespace

Isa isa() {
  if (limit().wrong) throw *limit().wrong;
  return limit().isa;
}

void limit_isa(Isa wanted) {
  if (wanted >= isa()) return;
  apply(wanted);
  limit().isa = wanted, limit().target = choose_target();
}

int64_t highway_target() { return limit().target; }

std::string compiled_for() {
  if constexpr ((HWY_TARGETS & (HWY_TARGETS - 1)) != 0) return "";
  return common_name(hwy::TargetName(HWY_STATIC_TARGET));
}

std::string common_name(const std::string& target) { return target.starts_with("AVX3") ? "AVX-512" : target; }

}  // namespace tachy::cpu
