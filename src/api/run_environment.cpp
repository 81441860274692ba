#include "api/run_environment.h"

#include "cuda/vendor/kept_choices.h"

namespace tachy {

Environment run_environment(bool on_gpu) {
  Environment out = recorded_environment();
  if (!on_gpu) return out;
  if (std::string choices = cuda::kept_choices(); !choices.empty()) out["kept_choices"] = std::move(choices);
  return out;
}

}  // namespace tachy
