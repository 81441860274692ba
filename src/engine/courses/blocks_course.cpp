// Makes a video block by block: text, then one stage in which each block's frames are handed out before the
// next one begins.
#include <algorithm>

#include "denoise/causal_denoiser.h"
#include "engine/courses/course.h"
#include "stages/stages.h"

namespace tachy {
namespace {

class BlocksCourse final : public Course {
 public:
  bool fits(const ResolvedRequest& r) const override { return r.request.block > 0; }

  std::vector<StagePlan> walk(Job& job, Session& session) const override {
    std::vector<StagePlan> out;
    for (const auto& stage : stages_of_inputs(job)) out.push_back(session.run(*stage, job));
    out.push_back(session.run(*make_blocks_stage(), job));
    if (session.crew() && !session.measuring()) session.crew()->rest();
    if (session.makes_frames()) out.push_back(session.run(*make_latents_stage(), job));
    return out;
  }

  // A block's steps are all finished or none is, and the last block's frames have been handed out with it.
  StateCounts state_counts(const Resolved& r, const Shared& shared) const override {
    return {.what = "block", .all = shared.latents.dim(1) / r.request.block - 1};
  }

  // A clip's pass is one graph, for which the libraries' share has room; blocks have several graphs.
  uint64_t graph_bytes(const Resolved& r, const WanConfig& dit) const override {
    const int64_t frames = r.latent_frames, given = r.request.block_window;
    return causal_graph_bytes(dit, {.frames = given > 0 ? std::min(given, frames) : frames}, r.request.block);
  }

  const char* would_fit() const override {
    return "a smaller size, fewer `frames`, or a shorter `block_window`";
  }
  bool divides_frames() const override { return true; }
  bool has_ring() const override { return false; }
  const char* name() const override { return "a video that is made block by block"; }
};

}  // namespace

const Course& blocks_course() {
  static const BlocksCourse course;
  return course;
}

}  // namespace tachy
