// Predicts a clip on several GPUs: each rank has a Denoiser of its own, on its device, with its own copies of the
// network and of what the passes read. A step gives every rank the latents, lets all predict at once, and brings
// the branches' velocities to the first rank.
//
// A measuring session has the first rank's denoiser alone. It takes every rank's seat in turn, since shares
// differ, so that the plan has room for the largest.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "denoise/clip_denoiser.h"
#include "denoise/rank_seats.h"

namespace tachy {

class RanksDenoiser final : public Denoiser {
 public:
  // Makes a rank's denoiser, in that rank's thread.
  using Make = std::function<std::unique_ptr<Denoiser>(const RankSeat& seat, const Bring& bring)>;
  struct Input {
    runtime::RankLayout layout;
    int expert = 0;
    int64_t branches = 1;
    std::vector<int64_t> latent_shape;  // [z, T, h, w] of the loop's latents
    Make make;
  };
  RanksDenoiser(const Input& in, Session& session);

  void predict(const Tensor& latents, int step, const Tensor& velocity) override;
  void put_given(const Tensor& x) const override { ranks_.front().denoiser->put_given(x); }
  int kind(int step) const override { return ranks_.front().denoiser->kind(step); }
  uint32_t reuses(int step) const override { return ranks_.front().denoiser->reuses(step); }
  uint64_t bytes() const override { return ranks_.front().denoiser->bytes(); }

 private:
  struct Rank {
    Tensor latents, velocity;  // on a further rank's device
    Bring bring;
    std::unique_ptr<Denoiser> denoiser;
  };
  void make_rank(int rank);
  void predict_on(int rank, const Tensor& latents, int step, const Tensor& velocity);

  const Input in_;
  RankSeats seats_;
  RankSeat seat_;  // in a measuring session, the one that the first rank's denoiser has now
  std::deque<Rank> ranks_;
};

}  // namespace tachy
