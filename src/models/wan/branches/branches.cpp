#include "models/wan/branches/branches.h"

#include "models/wan/branches/actions/action_branch.h"
#include "models/wan/branches/audio/audio_branch.h"
#include "models/wan/branches/image/image_branch.h"
#include "models/wan/branches/speakers/speakers_branch.h"
#include "models/wan/branches/trained/trained_branch.h"
#include "models/wan/branches/vace/vace_branch.h"

namespace tachy {
namespace {

// Returns null if the model has no such branch.
using MakeBranch = std::unique_ptr<WanBranch> (*)(const Scope& scope, const WanConfig& config,
                                                  nn::ParamStore& store);

constexpr MakeBranch kBranches[] = {
    make_trained_branch,   // FastWan, TurboDiffusion
    make_image_branch,     // Wan 2.1 image-to-video
    make_speakers_branch,  // InfiniteTalk with two voices
    make_audio_branch,     // InfiniteTalk
    make_action_branch,    // Matrix-Game 2
    make_vace_branch,      // VACE
};

}  // namespace

WanBranches make_branches(const Scope& scope, const WanConfig& config, nn::ParamStore& store) {
  WanBranches out;
  for (const MakeBranch make : kBranches)
    if (auto branch = make(scope, config, store)) out.push_back(std::move(branch));
  return out;
}

}  // namespace tachy
