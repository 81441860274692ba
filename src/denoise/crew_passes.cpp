#include "denoise/crew_passes.h"

#include <algorithm>

#include "base/checksum.h"

namespace tachy {
namespace {

uint64_t word_of(uint32_t number, const Tensor& latents, const Stream& stream) {
  const uint64_t bits = stream.gpu ? 0 : checksum_of(latents.data, static_cast<size_t>(latents.bytes()));
  return mixed_word(number, bits);
}

}  // namespace

int CrewPasses::place() const { return std::min(crew_->rank(), layout_.count() - 1); }

void CrewPasses::run(uint32_t number, const Tensor& latents, const Tensor& velocity, Stream& stream,
                     const Forward& forward) {
  const int rank = crew_->rank();
  if (!stream.measuring()) crew_->agree(word_of(number, latents, stream));
  if (rank < layout_.count()) {
    const int group = layout_.group_of(rank);
    const auto comm = crew_->among(group * layout_.per_group, layout_.per_group);
    forward(group, *comm);
  }
  if (stream.measuring()) return;
  if (velocity.defined()) hand_out(velocity, stream);
  crew_->settle(stream);
}

// The first rank of a group has the velocities of its branches.
void CrewPasses::hand_out(const Tensor& velocity, Stream& stream) {
  const auto leads = [&](int of) { return of < layout_.count() && layout_.place_of(of) == 0; };
  const auto branches_of = [&](int of) {
    const auto share = runtime::share_of(velocity.dim(0), layout_.group_of(of), layout_.groups);
    return velocity.slice(0, share.first, share.end);
  };
  const int rank = crew_->rank();
  std::vector<Tensor> from(static_cast<size_t>(crew_->size())), to(from.size());
  for (int p = 0; p < crew_->size(); ++p) {
    if (leads(rank)) from[static_cast<size_t>(p)] = branches_of(rank);
    if (leads(p)) to[static_cast<size_t>(p)] = branches_of(p);
  }
  crew_->among(0, crew_->size())->all_to_all(from, to, stream);
}

}  // namespace tachy
