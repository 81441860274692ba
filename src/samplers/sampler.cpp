// The coefficients of each solver's steps.
//
// With s, s' the sigmas of this step and the next, a = 1 - s', lambda(s) = ln(1 - s) - ln s,
// h = lambda' - lambda, B = expm1(-h), m = x - s v the predicted clean latent, m1 and m2 those of the two
// steps before:
//   euler  x' = x + (s' - s) v
//   lcm    x' = (1 - s') m + s' noise
//   dpmpp  x' = (s'/s) x - a B m - a B (m - m1) / (2 r),  r = (lambda - lambda1) / h; the last term
//          from step 1 on, not in the last step
//   dpmpp_sde  x' = (s'/s) e x + a (1 - e^2) (m + (m - m1) / (2 r)) + s' sqrt(1 - e^2) noise,  e = exp(-h); the difference
//          as in dpmpp
//   unipc  the same predictor with r = (lambda1 - lambda) / h and (m1 - m); before it, from step 1 on, x is
//          corrected with the m just obtained (m itself comes from the uncorrected x).
// If a sigma is exactly 1, lambda is -inf, 1/r is 0 and B is -1. The code below treats this case separately,
// so that no NaN arises.
#include "samplers/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace tachy {
namespace {

Slot state(int index) { return static_cast<Slot>(static_cast<int>(Slot::state) + index); }

// Returns lambda of a float32 sigma; 1 - sigma is exact in double.
double lambda(double sigma) {
  if (sigma >= 1) return -std::numeric_limits<double>::infinity();
  return std::log1p(-sigma) - std::log(sigma);
}

// Drops terms of weight zero, because a slot that was never written must not be read, not even times 0.
Assignment assign(Slot target, std::initializer_list<std::pair<Slot, double>> terms) {
  Assignment out{target, {}};
  for (const auto& [slot, coefficient] : terms)
    if (coefficient != 0) out.terms.push_back({slot, static_cast<float>(coefficient)});
  return out;
}

// A step from one sigma to the next.
struct Transition {
  double ratio;  // s' / s
  double a, b;   // 1 - s', expm1(-h)
  double h;
  Transition(double from, double to) : ratio(to / from), a(1 - to), h(lambda(to) - lambda(from)) {
    b = std::isinf(h) ? -1.0 : std::expm1(-h);
  }
};

// Returns (lambda of the previous sigma - lambda of this one) / h, which is negative, and -inf if the
// previous sigma is 1.
double step_ratio(double before, double now, double h) { return (lambda(before) - lambda(now)) / h; }

Update to_clean(double sigma) {
  return {assign(Slot::latent, {{Slot::latent, 1}, {Slot::prediction, -sigma}})};
}

Update euler_update(const std::vector<float>& s, size_t i) {
  return {
      assign(Slot::latent, {{Slot::latent, 1}, {Slot::prediction, static_cast<double>(s[i + 1] - s[i])}})};
}

Update lcm_update(const std::vector<float>& s, size_t i) {
  const double keep = 1.0 - s[i + 1];
  return {assign(Slot::latent,
                 {{Slot::latent, keep}, {Slot::prediction, -keep * s[i]}, {Slot::noise, double{s[i + 1]}}})};
}

// Computes x' from x, m and m1; with `order` 2 it includes the difference m1 - m. `r` is negative.
Assignment predictor(const Transition& t, Slot m, Slot m1, int order, double r) {
  const double difference = order == 2 ? -t.a * t.b * 0.5 / r : 0;  // times (m1 - m); 0 for r = -inf
  return assign(Slot::latent, {{Slot::latent, t.ratio}, {m, -t.a * t.b - difference}, {m1, difference}});
}

// States 0 and 1 hold m of the even and the odd steps.
Update dpmpp_update(const std::vector<float>& s, size_t i) {
  const bool last = i + 2 == s.size();
  if (last) return to_clean(s[i]);
  const Slot m = state(static_cast<int>(i % 2)), m1 = state(static_cast<int>((i + 1) % 2));
  const Transition t(s[i], s[i + 1]);
  const int order = i >= 1 ? 2 : 1;
  const double r = order == 2 ? step_ratio(s[i - 1], s[i], t.h) : -1;
  return {assign(m, {{Slot::latent, 1}, {Slot::prediction, -double{s[i]}}}), predictor(t, m, m1, order, r)};
}

Update dpmpp_sde_update(const std::vector<float>& s, size_t i) {
  const bool last = i + 2 == s.size();
  if (last) return to_clean(s[i]);
  const Slot m = state(static_cast<int>(i % 2)), m1 = state(static_cast<int>((i + 1) % 2));
  const Transition t(s[i], s[i + 1]);
  const double e = std::exp(-t.h), clean = -t.a * std::expm1(-2 * t.h);  // h may be infinite
  const double difference = i >= 1 ? -clean * 0.5 / step_ratio(s[i - 1], s[i], t.h) : 0;
  return {assign(m, {{Slot::latent, 1}, {Slot::prediction, -double{s[i]}}}),
          assign(Slot::latent, {{Slot::latent, t.ratio * e},
                                {m, clean + difference},
                                {m1, -difference},
                                {Slot::noise, s[i + 1] * std::sqrt(-std::expm1(-2 * t.h))}})};
}

// Computes the corrected x of step i and writes it to state 0, which holds that of step i - 1. States 1 and 2
// hold m of the even and the odd steps, so m2 is where this step's m will be written.
Assignment corrector(const std::vector<float>& s, size_t i, Slot m1, Slot m2) {
  const Transition t(s[i - 1], s[i]);
  const int order = i >= 2 ? 2 : 1;  // order of the predictor of the previous step
  double rho1 = 0, rho2 = 0.5;       // weights of (m2 - m1) and (m - m1)
  if (order == 2) {
    const double r = step_ratio(s[i - 2], s[i - 1], t.h), hh = -t.h;
    const double phi2 = t.b / hh - 1, phi3 = phi2 / hh - 0.5;
    const double b1 = phi2 / t.b, b2 = 2 * phi3 / t.b;
    const double rho = (b1 - b2) / (1 - r);
    rho1 = std::isinf(r) ? 0 : rho / r;
    rho2 = b1 - rho;
  }
  const double ab = -t.a * t.b;
  return assign(state(0), {{state(0), t.ratio},
                           {m1, ab * (1 - rho1 - rho2)},
                           {m2, ab * rho1},
                           {Slot::latent, ab * rho2},
                           {Slot::prediction, -ab * rho2 * s[i]}});
}

Update unipc_update(const std::vector<float>& s, size_t i) {
  const bool last = i + 2 == s.size();
  if (last) return to_clean(s[i]);  // in the last step x' = m, without the corrected x
  const Slot kept = state(0), m = state(1 + static_cast<int>(i % 2)),
             m1 = state(1 + static_cast<int>((i + 1) % 2));
  Update out;
  if (i >= 1)
    out.push_back(corrector(s, i, m1, m));
  else
    out.push_back(assign(kept, {{Slot::latent, 1}}));
  out.push_back(assign(m, {{Slot::latent, 1}, {Slot::prediction, -double{s[i]}}}));
  const Transition t(s[i], s[i + 1]);
  const int order = i >= 1 ? 2 : 1;
  const double r = order == 2 ? step_ratio(s[i - 1], s[i], t.h) : -1;
  Assignment next = predictor(t, m, m1, order, r);
  next.terms[0].slot = kept;
  out.push_back(std::move(next));
  return out;
}

}  // namespace

namespace {

// Leaves out the first steps of a schedule.
Schedule last_steps(Schedule s, double strength) {
  const int steps = s.steps(),
            kept = std::min(static_cast<int>(static_cast<double>(steps) * strength), steps);
  require(kept >= 1, "`strength`: {} of {} steps leaves none; {:.3g} or more leaves one", strength, steps,
          1.0 / steps);
  const int out = steps - kept;
  s.sigmas.erase(s.sigmas.begin(), s.sigmas.begin() + out);
  s.timesteps.erase(s.timesteps.begin(), s.timesteps.begin() + out);
  if (s.high_noise_steps >= 0) s.high_noise_steps = std::max(s.high_noise_steps - out, 0);
  return s;
}

}  // namespace

Sampler::Sampler(const SamplerConfig& config)
    : schedule_(last_steps(make_schedule(config), config.strength)) {
  if (config.kind == SamplerKind::unipc) state_tensors_ = 3;
  if (config.kind == SamplerKind::dpmpp || config.kind == SamplerKind::dpmpp_sde) state_tensors_ = 2;
  if (steps() == 1) state_tensors_ = 0;
  always_draws_ = config.kind == SamplerKind::dpmpp_sde || config.kind == SamplerKind::lcm;
  if (config.scaled_noise) noise_scale_ = schedule_.sigmas[0];
  for (size_t i = 0; i + 1 < schedule_.sigmas.size(); ++i) {
    switch (config.kind) {
      case SamplerKind::unipc:
        updates_.push_back(unipc_update(schedule_.sigmas, i));
        break;
      case SamplerKind::euler:
        updates_.push_back(euler_update(schedule_.sigmas, i));
        break;
      case SamplerKind::dpmpp:
        updates_.push_back(dpmpp_update(schedule_.sigmas, i));
        break;
      case SamplerKind::dpmpp_sde:
        updates_.push_back(dpmpp_sde_update(schedule_.sigmas, i));
        break;
      case SamplerKind::lcm:
        updates_.push_back(lcm_update(schedule_.sigmas, i));
        break;
    }
  }
}

const Update& Sampler::update(int step) const {
  check(step >= 0 && step < steps(), ErrorCode::internal, "sampler: step {} of {}", step, steps());
  return updates_[static_cast<size_t>(step)];
}

bool Sampler::needs_noise(int step) const {
  for (const Assignment& assignment : update(step))
    for (const Term& term : assignment.terms)
      if (term.slot == Slot::noise) return true;
  return false;
}

}  // namespace tachy
