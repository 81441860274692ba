#include "denoise/experts_denoiser.h"

namespace tachy {

ExpertsDenoiser::ExpertsDenoiser(std::vector<int> part_of_step, int first_step, Make make, GiveBack give_back)
    : part_of_step_(std::move(part_of_step)),
      make_(std::move(make)),
      give_back_(std::move(give_back)),
      part_(part(first_step)),
      current_(make_(part_)) {}

void ExpertsDenoiser::predict(const Tensor& latents, int step, const Tensor& velocity) {
  if (const int wanted = part(step); wanted != part_) {
    current_.reset();  // released first, so that memory for both is never needed
    give_back_(part_);
    part_ = wanted;
    current_ = make_(part_);
  }
  current_->predict(latents, step, velocity);
}

}  // namespace tachy
