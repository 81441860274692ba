// Flow-matching samplers: from noise (sigma 1) to a latent (sigma 0) in a few model calls.
//
// With x_s = (1 - s) x0 + s noise, the model predicts v = noise - x0, so x0 = x - s v. All solvers here are
// linear in the tensors that they use, so a step is a short list of assignments `target = sum of coefficient
// * source`. The coefficients depend only on the schedule, and are computed once, in double from the float32
// sigmas, when the Sampler is made. The caller owns the tensors (float32) and runs the list with one
// elementwise op.
//
//   Grid::diffusers reproduces diffusers 0.42.1:
//     unipc  UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=s,
//            num_train_timesteps=1000, solver_order=2, solver_type="bh2", lower_order_final=True)
//     euler  FlowMatchEulerDiscreteScheduler(num_train_timesteps=1000, shift=s)  (which shifts twice)
//     dpmpp  DPMSolverMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=s,
//            num_train_timesteps=1000, algorithm_type="dpmsolver++", solver_order=2, solver_type="midpoint")
//     dpmpp_sde  the same with algorithm_type="sde-dpmsolver++", which draws noise in each step
//     lcm    FlowMatchLCMScheduler(num_train_timesteps=1000, shift=s)  (euler's grid)
//   Grid::original reproduces the model authors' code: unipc from sigma 0.999 with truncated timesteps,
//   dpmpp and euler from sigma 1; euler's timesteps are fractional.
//   Grid::wrapper is ComfyUI-WanVideoWrapper's: for unipc, dpmpp and dpmpp_sde it begins at the shifted 0.999 and is shifted
//   again, with truncated timesteps; for euler and lcm it is diffusers'.
//   Grid::multitalk is that of MultiTalk and InfiniteTalk, for euler and lcm: timesteps from 1000 to 1 at equal
//   distances, shifted once, and 0 after them, all in float32. Its last step moves almost nothing.
//   Grid::comfyui is ComfyUI's scheduler "simple": entries of a table of 1000 shifted sigmas in float32, at distances
//   that are rounded down, from the last one (1) on. For unipc it is made for one step more, and its last sigma before
//   0 is left out. All timesteps are 1000 sigma and fractional.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tachy {

enum class SamplerKind {
  unipc,      // UniPC order 2, B(h) = expm1: predictor and corrector
  euler,      // x + (s' - s) v
  dpmpp,      // DPM-Solver++ 2M, midpoint
  dpmpp_sde,  // the same for the stochastic equation: fresh noise in each step
  lcm,        // stochastic few-step: x0 = x - s v, then (1 - s') x0 + s' fresh noise
};

enum class Grid { diffusers, original, multitalk, wrapper, comfyui };

struct SamplerConfig {
  SamplerKind kind = SamplerKind::unipc;
  Grid grid = Grid::diffusers;
  int steps = 50;
  double shift = 5.0;
  // The sigmas of a distilled model, if not empty: each in (0, 1], falling, without the final 0. They replace
  // the grid, `steps` and `shift`. The model then sees as many `timesteps`, or if these are empty, 1000 *
  // sigma (truncated for unipc, dpmpp and dpmpp_sde).
  std::vector<double> sigmas;
  std::vector<double> timesteps;
  // The number of steps of the first of two experts; if negative, the boundary decides.
  int high_noise_steps = -1;
  // The share of the steps that is run, for a clip that begins with a video and not with noise: the last ones, as
  // many as diffusers' get_timesteps leaves. The first of them begins as the first step of a whole run.
  double strength = 1;
  bool scaled_noise = false;  // the run begins with noise that is multiplied by the first sigma
};

// Moves a point of [0, 1] by the shift.
inline double shifted(double shift, double base) { return shift * base / (1 + (shift - 1) * base); }

struct Schedule {
  std::vector<float> sigmas;  // steps + 1 values, the last is 0
  std::vector<double>
      timesteps;  // steps values, 0 to 1000: whole for unipc, dpmpp and dpmpp_sde, else fractional
  int high_noise_steps = -1;  // see SamplerConfig

  int steps() const { return static_cast<int>(timesteps.size()); }
  // For models with two experts: says whether step i uses the high-noise one (boundary 0.875 or 0.9).
  bool high_noise(int step, double boundary) const {
    return high_noise_steps >= 0 ? step < high_noise_steps : timesteps[step] >= boundary * 1000;
  }
};

Schedule make_schedule(const SamplerConfig& config);

// The caller's tensors, all of the latent's shape.
enum class Slot : int {
  latent = 0,      // x: the model's input; after the update, the next latent
  prediction = 1,  // v: the model's output after guidance
  noise = 2,       // fresh standard normal numbers, read only if Sampler::needs_noise(step)
  state = 3,       // state k is Slot(3 + k), k < Sampler::state_tensors()
};

struct Term {
  Slot slot;
  float coefficient;
};

// target = sum of coefficient * slot, elementwise. The target may be one of the sources.
struct Assignment {
  Slot target;
  std::vector<Term> terms;  // at most kMaxTerms; summed in this order
};
inline constexpr int kMaxTerms = 5;

// Assignments must be run in order. Since they are elementwise, one fused pass that runs all of them element
// by element gives the same result. If steps 0, 1, 2 … are each run once, no state is read before it was
// written. `prediction` and `noise` are only read.
using Update = std::vector<Assignment>;

class Sampler {
 public:
  explicit Sampler(const SamplerConfig& config);

  const Schedule& schedule() const { return schedule_; }
  int steps() const { return schedule_.steps(); }
  int state_tensors() const { return state_tensors_; }  // latent-sized float32 tensors, kept between steps
  const Update& update(int step) const;
  bool needs_noise(int step) const;
  // Says whether the references draw noise in every step, even in the last one, where it has no effect. The
  // noise of a later clip depends on this.
  bool always_draws() const { return always_draws_; }
  float noise_scale() const { return noise_scale_; }  // factor of the noise with which a run begins
  // At this step the model's estimate of x0 is latent + coefficient * prediction, which previews show.
  float denoised_coefficient(int step) const { return -schedule_.sigmas[step]; }

 private:
  Schedule schedule_;
  int state_tensors_ = 0;
  bool always_draws_ = false;
  float noise_scale_ = 1;
  std::vector<Update> updates_;
};

// Accepts "unipc", "uni_pc", "euler", "flowmatch_euler", "dpm++", "dpmpp", "dpm++_sde", "lcm" … and
// diffusers' class names, in upper or lower case. The error lists the accepted spellings.
SamplerKind parse_sampler(std::string_view name);
Grid parse_grid(std::string_view name);
std::string_view to_string(SamplerKind kind);
std::string_view to_string(Grid grid);

// The published lists of distilled models, by name ("lightx2v-4", "fastwan-3" …); few_step.cpp gives the
// source of each. All of them run without guidance.
struct FewStepList {
  std::string_view name, about;
  SamplerConfig config;
};
const std::vector<FewStepList>& few_step_lists();
const FewStepList* find_few_step_list(std::string_view name);  // null if there is none
// Says whether a run may take this number of steps: the whole list or, if its recipe allows that, its
// beginning.
bool few_step_takes(const FewStepList& list, int steps);
// If `steps` is not 0, takes only the beginning of the list, which few_step_takes() must allow.
SamplerConfig few_step_config(std::string_view name, int steps = 0);

}  // namespace tachy
