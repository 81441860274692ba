#include "resolve/read_values.h"

#include "ops/implementations.h"
#include "request/precision_of.h"
#include "request/sampler_config.h"

namespace tachy {

void read_values(const VideoRequest& r, const GpuMode* gpu, Resolved& out) {
  out.sampler = Sampler(sampler_config(r));
  StepCacheValues values = std::move(out.step_cache.values);  // resolve_step_cache has found them
  out.step_cache = step_cache_of(r);
  out.step_cache.values = std::move(values);
  if (!out.step_cache.may_reuse(out.sampler.steps())) out.step_cache.threshold = 0;  // as in distilled models
  if (*r.sparse_attention > 0) {
    out.sparse = WanSparse{.share = *r.sparse_attention, .chooser = parse_key_chooser(*r.sparse_chooser)};
    out.dense_steps = *r.sparse_dense_steps;
  }
  if (r.sinusoid) out.sinusoid = parse_sinusoid(*r.sinusoid);
  out.without = ops::parse_without(r.without);
  if (gpu) {
    out.precision = precision_of(*gpu);
  } else {
    out.precision = precision_of(mode_of(r));
    if (r.math == "int8") out.precision.products = Products::int8;
  }
  out.precision.joined = !out.without.has(Optimisation::joined_qkv);
  out.graphs = (!gpu || gpu->graphs) && !out.without.has(Optimisation::graphs);
}

}  // namespace tachy
