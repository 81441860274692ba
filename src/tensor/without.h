// The names of the optimisations and implementations that are switched off in a run. A stream carries them
// (stream.h), and code checks them before it takes a faster way. If nothing is switched off, the check costs
// one branch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tachy {

enum class Optimisation {
  batched_guidance,
  few_keys,
  joined_qkv,
  fused_norms,
  fused_rope,
  fused_activations,
  norm_codes,
  conv_norms,
  kernel_overlap,
  graphs,
  step_cache
};

struct OptimisationInfo {
  Optimisation which;
  const char* name;
  const char* means;  // describes it to people in one line
};
std::span<const OptimisationInfo> optimisations();
// Names that stand for several optimisations, such as all fused passes of a block.
struct OptimisationGroup {
  const char* name;
  const char* means;
  std::vector<Optimisation> members;
};
std::span<const OptimisationGroup> optimisation_groups();

class Without {
 public:
  bool has(Optimisation o) const { return (mask_ & bit(o)) != 0; }
  bool kernel(std::string_view op, std::string_view impl) const { return kernels_ && names(op, impl); }
  bool empty() const { return mask_ == 0 && !kernels_; }

  void add(Optimisation o) { mask_ |= bit(o); }
  void add_kernel(std::string op, std::string impl);

  uint64_t signature() const;  // equal for values that switch off the same things
  bool operator==(const Without& other) const { return signature() == other.signature(); }

 private:
  static constexpr uint32_t bit(Optimisation o) { return uint32_t{1} << static_cast<int>(o); }
  bool names(std::string_view op, std::string_view impl) const;

  struct Kernel {
    std::string op, impl;
    auto operator<=>(const Kernel&) const = default;
  };
  uint32_t mask_ = 0;
  std::shared_ptr<const std::vector<Kernel>> kernels_;  // sorted, or null; shared, because streams are copied
};

}  // namespace tachy
