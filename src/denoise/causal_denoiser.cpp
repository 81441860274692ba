#include "denoise/causal_denoiser.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "ops/elementwise/elementwise.h"
#include "tensor/transfer.h"

namespace tachy {

uint64_t causal_graph_bytes(const WanConfig& c, const WanWindow& window, int64_t block) {
  constexpr uint64_t kNodeBytes = 16 << 10;
  constexpr int64_t kOfLayer = 32, kOfActions = 40, kBesides = 32;  // the most kernels of a pass
  const int64_t slots = window.frames - window.sinks, phases = slots / std::gcd(slots, block);
  // These are a step and the pass that remembers; with actions there is also a block's first step, which
  // keeps the keyboard's keys.
  const int64_t graphs = c.actions.present() ? 3 : 2;
  const int64_t kernels =
      kOfLayer * c.num_layers + kOfActions * static_cast<int64_t>(c.actions.blocks.size()) + kBesides;
  return static_cast<uint64_t>(graphs * phases * kernels) * kNodeBytes;
}

CausalDenoiser::CausalDenoiser(const CausalInput& in, Stream& stream)
    : stream_(stream),
      store_({.shelf = in.shelf}, stream),
      network_(*in.network),
      weights_(*in.weights),
      z_(in.z),
      channels_(in.channels),
      seat_(in.seat),
      // A profiler may need the work of each range to be queued inside the range, which a graph does not do.
      graphs_(in.graphs && !forbids_graphs(stream.hooks.profiler)),
      few_in_eight_bits_(in.few_in_eight_bits) {
  const WanConfig& c = network_.config();
  require(!in.block_lengths.empty(), "denoise: expected at least one block of latent frames");
  const int64_t extra = channels_.defined() ? channels_.dim(0) : 0;
  require(in.z + extra == c.in_channels && in.z == c.out_channels,
          "denoise: the transformer takes {} channels and makes {}, expected {} latents' and {} further ones",
          c.in_channels, c.out_channels, in.z, extra);
  if (extra > 0) expect_shape("denoise", "channels", channels_, {extra, -1, in.height, in.width});
  const int64_t most = *std::max_element(in.block_lengths.begin(), in.block_lengths.end());
  context_ = network_.make_context(in.text, in.text_rows, in.image_embeds, store_);
  for (const int64_t frames : in.block_lengths)
    if (!grids_.contains(frames)) grids_[frames] = network_.make_grid(frames, in.height, in.width, store_);
  const WanGrid& any = grids_.begin()->second;
  const int64_t divided = std::min(any.rows * any.columns, c.num_heads);
  if (in.ranks) ranks_ = RankPasses(*in.ranks, in.ranks->layout(1, divided));
  if (in.crew)
    crew_ =
        CrewPasses(*in.crew, in.crew_layout.value_or(runtime::RankLayout::of(in.crew->size(), 1, divided)));
  const int ranks = (seat_ ? seat_->layout : crew_.several() ? crew_.layout() : ranks_.layout()).count();
  const auto allocate = [&](int rank) {
    return network_.allocate_causal(in.window, most, any.rows, any.columns, store_,
                                    runtime::share_of(c.num_heads, rank, ranks).count());
  };
  causal_ = allocate(seat_ ? seat_->rank : crew_.several() ? crew_.place() : 0);
  for (int rank = 1; rank < ranks_.layout().count(); ++rank) of_ranks_.push_back(allocate(rank));
  std::vector<double> timesteps(in.timesteps.begin(), in.timesteps.end());
  timesteps.push_back(0);
  times_ = network_.make_times(timesteps, store_, in.sinusoid);
  input_ = store_.allocate(DType::f32, {in.z + extra, most, in.height, in.width});
  if (!runtime::StepGraph::possible(stream)) return;
  const int64_t rows = times_.embedding.dim(0), embedding = times_.embedding.dim(1),
                both = embedding + times_.projection.dim(1);
  rows_ = store_.allocate(DType::f32, {rows, both});
  row_ = store_.allocate(DType::f32, {1, both});
  ops::copy({.x = times_.embedding, .y = rows_.slice(1, 0, embedding)}, stream);
  ops::copy({.x = times_.projection, .y = rows_.slice(1, embedding, both)}, stream);
}

Tensor CausalDenoiser::latents(int64_t frames) const {
  return {input_.data, DType::f32, {z_, frames, input_.dim(2), input_.dim(3)}, input_.device};
}

void CausalDenoiser::take_latents(const Tensor& from) {
  const Tensor to = latents(from.dim(1));
  expect_shape("denoise", "latents", from, {to.dim(0), to.dim(1), to.dim(2), to.dim(3)});
  if (stream_.measuring()) return;
  if (stream_.memory)
    stream_.memory->copy(to.data, from.data, static_cast<size_t>(to.bytes()));
  else
    std::memcpy(to.data, from.data, static_cast<size_t>(to.bytes()));
}

void CausalDenoiser::begin_block(int64_t frames, const WanScript& script) {
  const auto grid = grids_.find(frames);
  check(grid != grids_.end(), ErrorCode::internal, "denoiser: a block of {} frames was not announced",
        frames);
  weights_.check_files();  // passes may read weights where they lie in the file
  grid_ = &grid->second;
  each_causal(
      [&](WanCausal& causal) { network_.begin_block(causal, *grid_, WanExtras::of(script), stream_); });
  put_channels();
}

// Fills in the channels that follow the block's latents. Past the last frame of the channels they no longer
// change.
void CausalDenoiser::put_channels() {
  const int64_t frames = causal_.frames, all = input_.dim(0);
  if (all == z_ || frames == settled_) return;
  const Tensor x(input_.data, DType::f32, {all, frames, input_.dim(2), input_.dim(3)}, input_.device);
  const int64_t last = channels_.dim(1) - 1;
  for (int64_t i = 0; i < frames; ++i)
    ops::copy(
        {.x = channels_.select(1, std::min(causal_.first + i, last)), .y = x.slice(0, z_, all).select(1, i)},
        stream_);
  settled_ = causal_.first >= last ? frames : 0;
}

// Returns the latents together with the channels that begin_block put after them, at row `time` of the
// timesteps.
WanInput CausalDenoiser::input(const Tensor& latents, int64_t time) const {
  const int64_t frames = causal_.frames, all = input_.dim(0);
  const Tensor x(input_.data, DType::f32, {1, all, frames, input_.dim(2), input_.dim(3)}, input_.device);
  expect_shape("denoise", "latents", latents, {z_, frames, input_.dim(2), input_.dim(3)});
  if (latents.data != input_.data) copy_bytes(latents, this->latents(frames), stream_);
  WanTimes times{times_.embedding.slice(0, time, time + 1), times_.projection.slice(0, time, time + 1)};
  if (row_.defined()) {
    const int64_t embedding = times_.embedding.dim(1);
    copy_bytes(rows_.slice(0, time, time + 1), row_, stream_);
    times = {row_.slice(1, 0, embedding), row_.slice(1, embedding, row_.dim(1))};
  }
  return {.latents = x,
          .grid = grid_,
          .times = times,
          .contexts = {&context_},
          .keys = {.few_in_eight_bits = few_in_eight_bits_},
          .causal = &causal_};
}

std::optional<CausalDenoiser::Phase> CausalDenoiser::phase(const WanInput& in) const {
  const WanWindow& w = causal_.window;
  if (!graphs_ || causal_.end() < w.frames || causal_.first < w.sinks) return std::nullopt;
  const bool more = !causal_.memory.empty();  // branches remember in rings without sinks
  if (more && in.fill_only && !causal_.known) return std::nullopt;  // a given block: too rare for a graph
  return Phase{causal_.frames, causal_.ring.slots.slot(causal_.first), more ? causal_.first % w.frames : 0,
               in.fill_only, causal_.known};
}

void CausalDenoiser::pass(const WanInput& in, const Tensor& velocity) {
  if (crew_.several())
    in_crew(in, velocity);
  else if (ranks_.several())
    on_ranks(in, velocity);
  else if (const std::optional<Phase> at = phase(in))
    graphed(*at, in_seat(in), velocity);
  else
    network_.forward(in_seat(in), velocity, stream_);
  each_causal([](WanCausal& causal) { causal.known = !causal.memory.empty(); });
}

// The first pass of a kind at a slot may load kernels, so its exchanges are careful (runtime/peer_comm.h).
WanInput CausalDenoiser::in_seat(const WanInput& in) {
  WanInput mine = in;
  if (!seat_ || seat_->layout.per_group == 1) return mine;
  mine.comm = seat_->comm, mine.cut = WanCut::frames;
  if (seat_->peers) {
    const bool first = seen_.emplace(causal_.ring.slots.slot(causal_.first), kind_of(in)).second;
    seat_->peers->set_careful(first);
  }
  return mine;
}

void CausalDenoiser::in_crew(const WanInput& in, const Tensor& velocity) {
  const auto number = static_cast<uint32_t>(2 * causal_.first + (in.fill_only ? 1 : 0));
  crew_.run(number, in.latents, velocity, stream_, [&](int, runtime::Comm& comm) {
    WanInput mine = in;
    mine.comm = &comm, mine.cut = WanCut::frames;
    network_.forward(mine, velocity, stream_);
  });
}

// The work and the scratch of a pass follow from its frames and from the frames that it sees.
int64_t CausalDenoiser::kind_of(const WanInput& in) const {
  const int64_t seen = std::min(causal_.end(), causal_.window.frames);
  return 2 * (seen * (causal_.most + 1) + causal_.frames) + (in.fill_only ? 1 : 0);
}

void CausalDenoiser::on_ranks(const WanInput& in, const Tensor& velocity) {
  ranks_.run(kind_of(in), stream_, [&](int rank, runtime::Comm& comm, Stream& stream) {
    WanInput mine = in;
    mine.causal = rank == 0 ? &causal_ : &of_ranks_[static_cast<size_t>(rank) - 1];
    mine.comm = &comm, mine.cut = WanCut::frames;
    network_.forward(mine, velocity, stream);
  });
}

void CausalDenoiser::graphed(const Phase& at, const WanInput& in, const Tensor& velocity) {
  // A recorded pass reads these members as they were when it was recorded: a later block has another
  // position, but the same slots.
  struct Pass {
    WanCausal causal;
    WanInput input;
  };
  const auto kept = std::make_shared<Pass>(Pass{causal_, in});
  kept->input.causal = &kept->causal;
  runtime::StepSignature signature;
  signature.add(stream_).add(in.latents).add(velocity);
  runtime::StepGraph::Agree agree;
  if (in.comm && seat_->peers) agree = [peers = seat_->peers](double mine) { return peers->most(mine); };
  phases_[at].run(
      stream_, signature,
      [kept, velocity, network = &network_, stream = &stream_] {
        network->forward(kept->input, velocity, *stream);
      },
      agree);
}

int CausalDenoiser::captures() const {
  int all = 0;
  for (const auto& [phase, graph] : phases_) all += graph.captures();
  return all;
}

std::vector<std::string> CausalDenoiser::captured() const {
  std::vector<std::string> all;
  for (const auto& [phase, graph] : phases_)
    for (std::string& name : graph.names()) all.push_back(std::move(name));
  return all;
}

void CausalDenoiser::predict(const Tensor& latents, int step, const Tensor& velocity) {
  const ProfileRange range(stream_.hooks.profiler, "transformer", ProfileKind::group);
  pass(input(latents, step), velocity);
}

void CausalDenoiser::remember(const Tensor& latents) {
  const ProfileRange range(stream_.hooks.profiler, "transformer (to remember)", ProfileKind::group);
  WanInput in = input(latents, times_.embedding.dim(0) - 1);
  in.fill_only = true;
  pass(in, {});
}

}  // namespace tachy
