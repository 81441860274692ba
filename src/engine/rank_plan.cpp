#include "engine/rank_plan.h"

#include "engine/courses/course.h"
#include "runtime/crew.h"
#include "runtime/pace.h"
#include "runtime/rank_team.h"
#include "stages/by_rows.h"

namespace tachy {

namespace {

// The sizes that ranks divide.
struct Divided {
  int64_t branches, frames, places,
      heads;  // `places` of each frame; a clip that is cut anywhere is one frame
  // The most ranks that a group can have. In a video made block by block each remembers the keys of its heads.
  int64_t most_ranks;
  int64_t seen;  // the most frames that a frame sees; a video made block by block begins with fewer
};

int64_t frames_seen(const Resolved& r) {
  const int64_t window = r.request.block_window;
  return window > 0 ? std::min(window, r.latent_frames) : r.latent_frames;
}

Divided divided_by(const Resolved& r, const ModelBundle& model) {
  const WanConfig& c = model.dit;
  const bool blocks = r.request.block > 0, whole_frames = course_of(r).divides_frames();
  const int64_t frames = blocks                               ? r.request.block
                         : r.windows.divides(r.latent_frames) ? r.windows.frames
                                                              : r.latent_frames;
  const int64_t places = r.latent_height / c.patch_h * (r.latent_width / c.patch_w),
                deep = frames / c.patch_t;
  return {.branches = blocks ? 1 : r.most_branches(),
          .frames = whole_frames ? deep : 1,
          .places = whole_frames ? places : deep * places,
          .heads = c.num_heads,
          .most_ranks = blocks         ? std::min(places, c.num_heads)
                        : whole_frames ? places
                                       : deep * places,
          .seen = blocks         ? frames_seen(r)
                  : whole_frames ? deep
                                 : 1};
}

// Throws if the request cannot be divided as `parallel` asks.
void check_asked(const Parallel& asked, const Resolved& r, const Divided& d, bool on_gpus) {
  if (asked.automatic()) return;
  require(asked.cfg <= d.branches,
          "`parallel`: cfg={} divides guidance's branches, of which this request has {}; make cfg at most {}",
          asked.cfg, d.branches, d.branches);
  require(asked.ulysses * asked.ring <= d.most_ranks,
          "`parallel`: {} ranks are to divide what {} at most can; make ulysses or ring smaller",
          asked.ulysses * asked.ring, d.most_ranks);
  if (asked.keeps_bits()) return;
  check(!on_gpus, ErrorCode::unsupported, "`parallel`: keys cannot go round among GPUs yet; make ring 1");
  check(course_of(r).has_ring(), ErrorCode::unsupported,
        "`parallel`: keys of {} cannot go round; make ring 1", course_of(r).name());
  check(
      !r.sparse, ErrorCode::unsupported,
      "`parallel`: with `sparse_attention` blocks are chosen from all keys, which therefore cannot go round; "
      "make ring 1");
}

std::string shares_of_heads(int64_t heads, int ranks) {
  const std::string all = fmt::format("{} heads among {} ranks", heads, ranks);
  if (heads % ranks == 0) return all;
  return all + fmt::format(" (not evenly: {} to {} each)", heads / ranks, heads / ranks + 1);
}

std::string reason(const Parallel& asked, const runtime::RankLayout& layout, const Divided& d, int ranks) {
  std::string out;
  if (!asked.automatic())
    out = "as asked for";
  else if (layout.groups > 1)
    out = fmt::format("guidance's {} branches come first, since they exchange nothing", d.branches);
  else if (d.branches > 1)
    out = fmt::format("guidance's {} branches have no divisor in common with {} ranks", d.branches, ranks);
  else
    out = "guidance has one branch";
  if (layout.ulysses() > 1) out += "; then " + shares_of_heads(d.heads, layout.ulysses());
  if (layout.ring > 1)
    out += fmt::format("; keys go round {} times, so that the last bits differ from those of one rank",
                       layout.ring - 1);
  if (layout.count() < ranks)
    out += fmt::format("; {} of {} ranks have nothing to do, since at most {} can divide tokens and heads",
                       ranks - layout.count(), ranks, d.most_ranks);
  return out;
}

RankPlan part_of(const runtime::RankLayout& layout, int rank, const Divided& d) {
  RankPlan plan;
  if (rank >= layout.count()) return plan;
  const auto part = [](int64_t of, int at, int among, int64_t& first, int64_t& count) {
    const runtime::Share share = runtime::share_of(of, at, among);
    first = share.first, count = share.count();
  };
  const int place = layout.place_of(rank);
  part(d.branches, layout.group_of(rank), layout.groups, plan.first_branch, plan.branches);
  part(d.places, place, layout.per_group, plan.first_token, plan.tokens);
  plan.tokens *= d.frames;
  part(d.heads, place % layout.ulysses(), layout.ulysses(), plan.first_head, plan.heads);
  return plan;
}

// Says whether a GPU makes the same calls of attention as one that has all heads and branches (nn/attention.h).
bool same_calls(const runtime::RankLayout& layout, const Divided& d, int64_t head_dim) {
  if (d.heads % layout.ulysses() != 0) return false;
  for (int64_t seen = d.frames; seen <= d.seen; seen += d.frames) {
    const double of_head = 4 * static_cast<double>(d.frames * d.places) *
                           static_cast<double>(seen * d.places) * static_cast<double>(head_dim);
    const int64_t all = runtime::heads_of_a_long_call(d.heads, of_head);
    if (all == 0 || runtime::heads_of_a_long_call(d.heads / layout.ulysses(), of_head) != all) return false;
  }
  return true;
}

}  // namespace

SharedPass plan_ranks(const Model& model, const Resolved& r) {
  const runtime::Crew* const crew = model.options().crew.get();
  const int ranks = crew ? crew->size() : model.ranks();
  if (ranks == 1) return {};
  const Parallel& asked = model.options().parallel;
  const Divided d = divided_by(r, model.bundle());
  const bool on_gpus = model.on_gpus() || (crew && model.gpu());
  check_asked(asked, r, d, on_gpus);
  const auto layout = asked.automatic() ? runtime::RankLayout::of(ranks, d.branches, d.most_ranks)
                                        : runtime::RankLayout{.groups = asked.cfg,
                                                              .per_group = asked.ulysses * asked.ring,
                                                              .ring = asked.ring};
  SharedPass out{.parallel = {.cfg = layout.groups, .ulysses = layout.ulysses(), .ring = layout.ring},
                 .why = reason(asked, layout, d, ranks)};
  out.equal_bits = layout.ring == 1;
  if (on_gpus && !same_calls(layout, d, model.bundle().dit.head_dim)) {
    out.equal_bits = false;
    out.why +=
        "; attention is called with fewer heads or branches, which cuts other work along the keys: the "
        "latents differ "
        "in their last bits at first (by up to some hundredths of their RMS where it was measured)";
  }
  const bool by_rows = gpus_decode_by_rows(model.bundle().vae_config, r.latent_height, r.latent_width,
                                           !crew || crew->on_one_host());
  // Processes of a CPU leave the decoder to the first one, and so do all where only passes are shared. GPUs of one
  // process decode blocks where they share passes, and those of several leave them to the first one.
  const bool blocks = r.request.block > 0;
  const int of_blocks = model.on_gpus() ? gpus_of_block_rows(model.bundle().vae_config, r.latent_height,
                                                             r.latent_width, layout.count())
                                        : 1;
  const bool rows_too = !on_gpus ? !crew : blocks ? of_blocks > 1 : by_rows;
  const int bands = blocks && on_gpus ? of_blocks : ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    RankPlan& plan = out.ranks.emplace_back(part_of(layout, rank, d));
    // The processes of a crew are like this one.
    plan.threads = crew ? model.threads() : runtime::threads_of(model.threads(), rank, ranks);
    if (!rows_too || rank >= bands) continue;
    const runtime::Share rows = runtime::share_of(r.latent_height, rank, bands);
    plan.first_row = rows.first, plan.rows = rows.count();
  }
  return out;
}

void put(SharedPass&& shared, VideoPlan& plan) {
  plan.ranks = std::move(shared.ranks);
  plan.parallel = shared.parallel, plan.equal_bits = shared.equal_bits;
  plan.parallel_why = std::move(shared.why);
}

bool is_exchange(const OpWork& work) { return work.op == runtime::kExchange; }

}  // namespace tachy
