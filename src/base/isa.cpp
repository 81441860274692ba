#include "base/isa.h"

#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "base/env.h"
#include "base/error.h"

namespace tachy {
namespace {

constexpr Isa kAll[] = {Isa::sse4, Isa::avx2, Isa::avx512, Isa::native};

bool cpu_has(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::sse4:
      return __builtin_cpu_supports("sse4.2");
    case Isa::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    case Isa::native:
      return true;
  }
#endif
  return isa == Isa::native;
}

}  // namespace

const char* isa_name(Isa isa) {
  static constexpr const char* kNames[] = {"sse4", "avx2", "avx512", "native"};
  return kNames[static_cast<int>(isa)];
}

Isa isa_named(std::string_view name, const char* source) {
  std::vector<std::string_view> here;
  bool known = false;
  for (const Isa isa : kAll) {
    const bool has = cpu_has(isa), named = name == isa_name(isa);
    if (has && named) return isa;
    if (has) here.emplace_back(isa_name(isa));
    known = known || named;
  }
  fail(ErrorCode::invalid_argument, "{}: expected {}{}, got '{}'{}", source, here.size() > 1 ? "one of " : "",
       fmt::join(here, ", "), name, known ? ", which this CPU does not have" : "");
}

Isa isa_asked() {
  static const Isa asked = [] {
    const std::string name = env_string("TACHY_ISA", "");
    return name.empty() ? Isa::native : isa_named(name, "TACHY_ISA");
  }();
  return asked;
}

Isa best_isa() {
  for (const Isa isa : {Isa::avx512, Isa::avx2, Isa::sse4})
    if (isa <= isa_asked() && cpu_has(isa)) return isa;
  return Isa::native;
}

}  // namespace tachy
