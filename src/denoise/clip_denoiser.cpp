#include "denoise/clip_denoiser.h"

#include "ops/elementwise/elementwise.h"
#include "tensor/transfer.h"

namespace tachy {

ClipDenoiser::ClipDenoiser(const ClipInput& in, std::vector<double> fixed_times, Stream& stream)
    : stream_(stream),
      store_({.shelf = in.shelf}, stream),
      weights_(*in.weights),
      first_step_(in.first_step),
      serial_(in.serial),
      dense_steps_(in.dense_steps),
      few_in_eight_bits_(in.few_in_eight_bits),
      distinct_(1 + static_cast<int64_t>(fixed_times.size())),
      given_(in.given),
      // A profiler may need the work of each range to be queued inside the range, which a graph does not do.
      graph_(forbids_graphs(stream.hooks.profiler) ? nullptr : in.graph),
      seat_(in.seat) {
  const int64_t z = in.latent_shape.at(0), frames = in.latent_shape.at(1), h = in.latent_shape.at(2),
                w = in.latent_shape.at(3);
  const auto branches = static_cast<int64_t>(in.texts.size());
  const WanDit& network = *in.network;
  pass_->network = &network;
  make_contexts(in);
  make_speech(in);
  const WanConfig& c = network.config();
  std::vector<int32_t> places;
  if (in.sparse) places = places_for(*in.sparse, c, frames / c.patch_t, h / c.patch_h, w / c.patch_w);
  pass_->grid = network.make_grid(frames, h, w, store_, std::move(places), in.riflex);
  if (in.sparse) keys_ = make_keys(*in.sparse, c, pass_->grid, store_);
  std::vector<double> timesteps;
  for (const double t : in.timesteps) {
    timesteps.push_back(t);
    timesteps.insert(timesteps.end(), fixed_times.begin(), fixed_times.end());
  }
  const WanGrid& grid = pass_->grid;
  const int64_t divided = in.speech.empty() ? grid.tokens() : grid.rows * grid.columns;
  if (in.ranks) ranks_ = RankPasses(*in.ranks, in.ranks->layout(branches, divided));
  if (in.crew)
    crew_ = CrewPasses(*in.crew,
                       in.crew_layout.value_or(runtime::RankLayout::of(in.crew->size(), branches, divided)));
  times_ = network.make_times(timesteps, store_, in.sinusoid);
  if (in.step_cache) make_schedule(in);
  const int64_t extra = in.channels.defined() ? in.channels.dim(0) : 0;
  input_ = store_.allocate(DType::f32, {branches, z + extra, frames, h, w});
  if (runtime::StepGraph::possible(stream))
    current_ = {store_.allocate(DType::f32, {distinct_, times_.embedding.dim(1)}),
                store_.allocate(DType::f32, {distinct_, times_.projection.dim(1)})};
  if (extra > 0) put_channels(in.channels);
  make_control_of(in);
}

void ClipDenoiser::make_control_of(const ClipInput& in) {
  if (!in.network->config().vace.present()) return;
  pass_->control.emplace();
  if (!in.control.defined()) return;
  const Tensor& c = in.control;
  *pass_->control = make_control(
      *in.network, store_.allocate(DType::f32, {input_.dim(0), c.dim(0), c.dim(1), c.dim(2), c.dim(3)}),
      in.control_scales, store_);
  put_control(c);
}

void ClipDenoiser::put_control(const Tensor& control) {
  for (int64_t b = 0; b < input_.dim(0); ++b)
    copy_bytes(control, pass_->control->latents.select(0, b), stream_);
}

void ClipDenoiser::put_channels(const Tensor& channels) {
  const int64_t all = input_.dim(1), first = all - channels.dim(0);
  for (int64_t b = 0; b < input_.dim(0); ++b)
    copy_bytes(channels, input_.select(0, b).slice(0, first, all), stream_);
}

void ClipDenoiser::make_contexts(const ClipInput& in) {
  std::vector<WanContext>& contexts = pass_->contexts;
  std::vector<WanContext>* const of_first = seat_ ? seat_->contexts : nullptr;
  if (of_first && seat_->rank > 0 && copy_contexts(*of_first)) return;
  for (size_t i = 0; i < in.texts.size(); ++i) {
    if (i > 0 && in.texts[i].data == in.texts[i - 1].data) {
      contexts.push_back(contexts.back());
      continue;
    }
    const Tensor image = contexts.empty() ? in.image_embeds : Tensor();
    contexts.push_back(in.network->make_context(in.texts[i], in.text_rows, image, store_));
    contexts.back().more.add_missing(contexts.front().more);  // all branches see the same picture
  }
  if (of_first && seat_->rank == 0) *of_first = contexts;
}

void ClipDenoiser::make_speech(const ClipInput& in) {
  if (in.speech.empty()) return;
  const AudioWindow silence{.states = {}, .first_frame = in.speech.front().first_frame};
  WanRegions regions;  // without speech, guidance has one speaker, as in InfiniteTalk
  if (!in.regions.empty()) regions = make_regions(*in.network, in.regions, store_);
  std::optional<WanAudio> made[2];  // without and with speech
  for (const bool hears : in.hears) {
    std::optional<WanAudio>& audio = made[hears ? 1 : 0];
    if (!audio) {
      audio = allocate_audio(*in.network, in.latent_shape.at(1), store_, hears ? regions : WanRegions());
      make_audio(*in.network, hears ? std::span(in.speech) : std::span(&silence, 1), *audio, stream_);
    }
    pass_->audio.push_back(*audio);
  }
}

void ClipDenoiser::make_schedule(const ClipInput& in) {
  BlockSteps steps = in.steps;
  steps.first = first_step_, steps.count = static_cast<int>(in.timesteps.size());
  steps.branches = static_cast<int64_t>(in.texts.size());
  added_ = store_.allocate(DType::f32, {steps.branches, pass_->grid.tokens(), in.network->config().dim()});
  if (stream_.measuring()) return;
  // A graph must not read what was never written.
  zero(added_, stream_);
  if (in.step_cache->kind == StepCacheKind::magcache) {
    schedule_ = magcache_steps(*in.step_cache, steps);
    return;
  }
  const int64_t width = times_.embedding.dim(1);
  std::vector<float> all(static_cast<size_t>(times_.embedding.numel())), own;
  download(times_.embedding, all.data(), stream_);
  for (int64_t i = 0; i < steps.count; ++i)  // a step's own timestep is the first of its timesteps
    own.insert(own.end(), all.begin() + i * distinct_ * width, all.begin() + (i * distinct_ + 1) * width);
  schedule_ = teacache_steps(*in.step_cache, steps, own, width);
}

uint32_t ClipDenoiser::reuses(int step) const {
  return schedule_.empty() ? 0 : schedule_.at(static_cast<size_t>(step - first_step_));
}

void ClipDenoiser::put_given(const Tensor& x) const {
  if (given_.defined()) ops::copy({.x = given_, .y = x.slice(1, 0, given_.dim(1))}, stream_);
}

// Returns the inputs of a step's pass, with its timesteps where a captured pass reads them.
const ClipDenoiser::Pass& ClipDenoiser::prepare(int step) {
  const int64_t begin = (step - first_step_) * distinct_, end = begin + distinct_;
  WanTimes times{times_.embedding.slice(0, begin, end), times_.projection.slice(0, begin, end)};
  if (current_.embedding.defined()) {
    copy_bytes(times.embedding, current_.embedding, stream_);
    copy_bytes(times.projection, current_.projection, stream_);
    times = current_;
  }
  pass_->inputs.clear();
  const bool alone = stream_.without.has(Optimisation::batched_guidance);
  const runtime::RankLayout& layout = seat_             ? seat_->layout
                                      : crew_.several() ? crew_.layout()
                                                        : ranks_.layout();
  const int groups = layout.groups;
  for (int group = 0; group < groups; ++group) {
    const runtime::Share branches = runtime::share_of(input_.dim(0), group, groups);
    const auto like = [&](int64_t a, int64_t b) {
      return !alone && (reuses(step) >> a & 1) == (reuses(step) >> b & 1);
    };
    for (int64_t first = branches.first, end = first; first < branches.end; first = end) {
      while (++end < branches.end && like(first, end)) continue;
      pass_->inputs.push_back(
          {.group = group, .first_branch = first, .wan = input_of(first, end, times, step)});
    }
  }
  return *pass_;
}

WanInput ClipDenoiser::input_of(int64_t first, int64_t last, const WanTimes& times, int step) const {
  const int64_t tokens = pass_->grid.tokens();
  WanInput input{.latents = input_.slice(0, first, last), .grid = &pass_->grid, .times = times};
  if (row_.defined()) input.row = row_.slice(0, first * tokens, last * tokens);
  if (kind(step) == 1) input.keys = keys_;
  if (added_.defined()) input.added = added_.slice(0, first, last), input.reuses = reuses(step) >> first & 1;
  input.keys.few_in_eight_bits = few_in_eight_bits_;
  for (int64_t b = first; b < last; ++b) input.contexts.push_back(&pass_->contexts[static_cast<size_t>(b)]);
  if (!pass_->audio.empty())
    input.given.put(WanSpeech{{pass_->audio.begin() + first, pass_->audio.begin() + last}});
  if (pass_->control) {
    WanControl control = *pass_->control;
    if (control.latents.defined()) control.latents = control.latents.slice(0, first, last);
    input.given.put(std::move(control));
  }
  return input;
}

void ClipDenoiser::Pass::forward(int group, runtime::Comm* comm, int ring, const Tensor& velocity,
                                 Stream& stream) const {
  for (const Input& input : inputs) {
    if (input.group != group) continue;
    WanInput mine = input.wan;
    mine.comm = comm, mine.ring = ring;
    mine.cut = audio.empty() ? WanCut::clip : WanCut::frames;
    network->forward(mine, velocity.slice(0, input.first_branch, input.first_branch + mine.latents.dim(0)),
                     stream);
  }
}

runtime::StepSignature ClipDenoiser::signature(const Tensor& velocity) const {
  runtime::StepSignature out;
  out.add(serial_).add(stream_);
  for (const Pass::Input& i : pass_->inputs)
    out.add(i.wan.latents).add(i.wan.row).add(i.wan.added).add(static_cast<uint64_t>(i.wan.reuses));
  const WanInput& input = pass_->inputs.front().wan;
  for (const Tensor& t :
       {input.times.embedding, input.times.projection, pass_->grid.cos, pass_->grid.sin, pass_->grid.place,
        input.keys.lists.indices, input.keys.lists.counts, input.keys.query_blocks.ends,
        input.keys.key_blocks.ends, input.keys.query_block_of, velocity})
    out.add(t);
  out.add(static_cast<uint64_t>(input.keys.keep)).add(few_in_eight_bits_);
  for (const WanContext& c : pass_->contexts) {
    for (const Tensor& t : {c.k, c.v, c.key_bias}) out.add(t);
    for (const Tensor& t : c.more.tensors()) out.add(t);
  }
  for (const Pass::Input& i : pass_->inputs)
    for (const Tensor& t : i.wan.given.tensors()) out.add(t);
  return out;
}

void ClipDenoiser::predict(const Tensor& latents, int step, const Tensor& velocity) {
  weights_.check_files();  // the pass reads its weights where they lie in the file
  const int64_t branches = velocity.dim(0), z = latents.dim(0);
  check(branches == static_cast<int64_t>(pass_->contexts.size()), ErrorCode::internal,
        "denoiser: {} branches wanted, {} texts given", branches, pass_->contexts.size());
  for (int64_t b = 0; b < branches; ++b) {
    const Tensor part = input_.select(0, b).slice(0, 0, z);
    copy_bytes(latents, part, stream_);
    put_given(part);
  }
  const Pass& pass = prepare(step);
  const ProfileRange range(stream_.hooks.profiler, "transformer", ProfileKind::group);
  if (seat_) return forward_in_seat(kind(step), velocity);
  if (crew_.several())
    return crew_.run(static_cast<uint32_t>(step), latents, velocity, stream_,
                     [&](int group, runtime::Comm& comm) {
                       pass.forward(group, &comm, crew_.layout().ring, velocity, stream_);
                     });
  if (ranks_.several()) {
    const runtime::RankLayout& layout = ranks_.layout();
    return ranks_.run(kind(step), stream_, [&](int rank, runtime::Comm& comm, Stream& stream) {
      pass.forward(layout.group_of(rank), &comm, layout.ring, velocity, stream);
    });
  }
  // A step that reuses is a handful of launches, and must not take a captured pass's place.
  if (!graph_ || reuses(step) != 0) return pass.forward(0, nullptr, 1, velocity, stream_);
  graph_->run(stream_, signature(velocity), [pass = pass_, velocity, stream = &stream_] {
    pass->forward(0, nullptr, 1, velocity, *stream);
  });
}

}  // namespace tachy
