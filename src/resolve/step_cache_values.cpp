#include "resolve/step_cache_values.h"

#include <span>

namespace tachy {
namespace {

#include "resolve/magcache_ratios.inc"

struct Published {
  int64_t heads, layers, in_channels;
  int experts;
  bool large;     // for videos nearer to 720p than to 480p
  bool pictured;  // for a model that works with and without a picture: that it has one
  std::span<const double> ratios;
  double magcache_threshold, retention;
  int most;
  bool first_expert_whole;
  std::vector<double> coefficients;  // without "retention steps", the published default
  double teacache_threshold;
};

// The thresholds are those of the commands in the READMEs of github.com/ali-vilab/TeaCache and
// github.com/Zehong-Ma/MagCache. Rows for 480p count for small videos alone if there is one for 720p.
const std::vector<Published>& table() {
  static const std::vector<double> none;
  static const std::vector<Published> rows = {
      {12,
       30,
       16,
       1,
       false,
       false,
       kWan13bRatios,
       0.12,
       0.2,
       4,
       false,
       {2.39676752e+03, -1.31110545e+03, 2.01331979e+02, -8.29855975e+00, 1.37887774e-01},
       0.08},
      {40,
       40,
       16,
       1,
       false,
       false,
       kWan14bRatios,
       0.24,
       0.2,
       6,
       false,
       {-5784.54975374, 5449.50911966, -1811.16591783, 256.27178429, -13.02252404},
       0.2},
      {40,
       40,
       36,
       1,
       false,
       false,
       kWanImage480Ratios,
       0.24,
       0.2,
       6,
       false,
       {-3.02331670e+02, 2.23948934e+02, -5.25463970e+01, 5.87348440e+00, -2.01973289e-01},
       0.26},
      {40,
       40,
       36,
       1,
       true,
       false,
       kWanImage720Ratios,
       0.24,
       0.2,
       6,
       false,
       {-114.36346466, 65.26524496, -18.82220707, 4.91518089, -0.23412683},
       0.3},
      {40, 40, 16, 2, false, false, kWan22Ratios, 0.06, 0.4, 2, true, none, 0},
      {40, 40, 36, 2, false, false, kWan22ImageRatios, 0.06, 0.1, 2, false, none, 0},
      {24, 30, 48, 1, false, false, kWan5bRatios, 0.06, 0.2, 2, false, none, 0},
      {24, 30, 48, 1, false, true, kWan5bImageRatios, 0.06, 0.2, 2, false, none, 0},
  };
  return rows;
}

}  // namespace

StepCacheValues published_step_cache_values(const WanConfig& c, int experts, int64_t pixels, bool pictured) {
  constexpr int64_t kLarge = 606'000;  // the geometric mean of 832x480 and 1280x720
  const Published* found = nullptr;
  for (const Published& row : table()) {
    if (row.heads != c.num_heads || row.layers != c.num_layers || row.in_channels != c.in_channels ||
        row.experts != experts)
      continue;
    // The first row fits any size and any input; a later one replaces it if it is meant for these.
    if (!found || (row.large && pixels > kLarge) || (row.pictured && pictured)) found = &row;
  }
  if (!found) return {};
  return {.coefficients = found->coefficients,
          .teacache_threshold = found->teacache_threshold,
          .ratios = {found->ratios.begin(), found->ratios.end()},
          .magcache_threshold = found->magcache_threshold,
          .retention = found->retention,
          .most = found->most,
          .first_expert_whole = found->first_expert_whole};
}

StepCacheValues step_cache_values(const ModelBundle& model, int64_t pixels, bool pictured) {
  StepCacheValues out = published_step_cache_values(model.dit, model.experts(), pixels, pictured);
  const StepCacheValues& own = model.step_caches;
  if (!own.coefficients.empty())
    out.coefficients = own.coefficients, out.teacache_threshold = own.teacache_threshold;
  if (own.ratios.empty()) return out;
  out.ratios = own.ratios, out.magcache_threshold = own.magcache_threshold;
  out.retention = own.retention, out.most = own.most, out.first_expert_whole = false;
  return out;
}

}  // namespace tachy
