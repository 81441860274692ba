#include "engine/rank_plan.h"

#include "engine/courses/course.h"
#include "runtime/rank_team.h"

namespace tachy {

namespace {

// Refuses courses that attend to more than the clip's own tokens.
void check_course(const Resolved& r) {
  const char* const kind = course_of(r).undivided();
  check(!kind, ErrorCode::unsupported,
        "`ranks`: {} cannot be divided among ranks yet; leave `ranks` out, or make it 1", kind ? kind : "");
}

int64_t tokens_of(const Resolved& r, const ModelBundle& model) {
  const int64_t frames = r.windows.divides(r.latent_frames) ? r.windows.frames : r.latent_frames;
  const WanConfig& c = model.dit;
  return frames / c.patch_t * (r.latent_height / c.patch_h) * (r.latent_width / c.patch_w);
}

}  // namespace

std::vector<RankPlan> plan_ranks(const Model& model, const Resolved& r) {
  const int ranks = model.options().ranks;
  if (ranks == 1) return {};
  check_course(r);
  const int64_t branches = r.most_branches(), tokens = tokens_of(r, model.bundle()),
                heads = model.bundle().dit.num_heads;
  const auto layout = runtime::RankLayout::of(ranks, branches, tokens);
  std::vector<RankPlan> out;
  for (int rank = 0; rank < ranks; ++rank) {
    RankPlan& plan = out.emplace_back(RankPlan{.threads = runtime::threads_of(model.threads(), rank, ranks)});
    if (rank >= layout.count()) continue;
    const auto part = [&](int64_t of, int at, int among, int64_t& first, int64_t& count) {
      const runtime::Share share = runtime::share_of(of, at, among);
      first = share.first, count = share.count();
    };
    part(branches, layout.group_of(rank), layout.groups, plan.first_branch, plan.branches);
    part(tokens, layout.place_of(rank), layout.per_group, plan.first_token, plan.tokens);
    part(heads, layout.place_of(rank), layout.per_group, plan.first_head, plan.heads);
  }
  return out;
}

}  // namespace tachy
