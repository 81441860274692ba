#include "worlds/world_session.h"

#include <algorithm>

#include "base/env.h"
#include "catalog/open_tokenizer.h"
#include "ops/implementations.h"
#include "request/precision_of.h"
#include "session/vae_math.h"
#include "tensor/streaming_memory.h"
#include "text/tokenizer.h"

namespace tachy {

WorldSession::WorldSession(std::shared_ptr<Model> shared, const Options& o)
    : WorldSession(std::move(shared), o, Unopened()) {
  open(o);
}

WorldSession::WorldSession(std::shared_ptr<Model> shared, const Options& o, Unopened)
    : model_(std::move(shared)),
      gpu_(model_->take_gpu()),
      config_(world_config(model_->bundle(), o.choices)) {
  const VaeConfig& vae = model().vae_config;
  require(!model_->one_at_a_time(), "`verify_upload`: it is not for worlds; leave it out");
  check(model_->ranks() == 1, ErrorCode::unsupported,
        "`{0}`: a world cannot be divided among ranks yet; leave `{0}` out, or make it 1",
        model_->on_gpus() ? "gpus" : "ranks");
  require(o.longest_frames >= 0, "world: expected a longest session of 0 or more frames, got {}",
          o.longest_frames);
  const ModelOptions& options = model_->options();
  setup_ = {.model = model_.get(),
            .config = &config_,
            .sampler = world_sampler(config_, o.choices),
            .graphs = options.graphs,
            .latents = o.latents};
  if (o.longest_frames > 0)
    setup_.longest = 1 + (o.longest_frames + vae.temporal_stride() - 2) / vae.temporal_stride();
  stream_ = {.pool = &model_->pool(),
             .gpu = gpu_.get(),
             .memory = gpu_ ? gpu_.get() : model_->memory(),
             .precision = precision_at(o.level, o.dtype, capability_of(gpu_.get())),
             .without = ops::parse_without(o.without)};
  check_definitions(stream_.precision);
  stream_.precision.joined = !stream_.without.has(Optimisation::joined_qkv);
  setup_.vae = vae_products(o.vae_math, vae, stream_.precision, gpu_.get());
  check_arena(options, gpu_ && options.graphs && !stream_.without.has(Optimisation::graphs));
  measure();
}

// Memory and parts are released before the claim is.
WorldSession::~WorldSession() {
  run_.reset(), arena_.reset();
  if (!claim_) return;
  Admission::Lock lock = model_->tenancy().lock();
  model_->tenancy().admission().leave(lock, model_->tenancy().tenant(), *claim_);
}

void WorldSession::open(const Options& o) {
  Tenancy& tenancy = model_->tenancy();
  Wish wish{.tenant = &tenancy.tenant(),
            .plan = &plan_,
            .precision = stream_.precision,
            .claim = {.peak = plan_.peak_bytes - plan_.shared_bytes, .parts = parts_}};
  wish.claim.own = wish.claim.peak;
  for (const auto& [key, bytes] : parts_) wish.claim.own -= bytes;
  wish.claim.thread = std::this_thread::get_id();
  Admission::Lock lock = tenancy.lock();
  claim_ = tenancy.admission().enter(lock, wish, o.cancel);
  lock.unlock();
  stream_.hooks.cancel = o.cancel;
  arena_.emplace(arena_bytes_, stream_.memory,
                 model_->options().arena ? Arena::Kind::whole : Arena::Kind::pieces);
  stream_.arena = &*arena_;
  run_.emplace(setup_, gpu_, stream_);
  lock.lock();
  tenancy.admission().settle(lock, tenancy.tenant(), *claim_);
}

// Measures a session's walk without storage: its beginning, then blocks until the window is full.
void WorldSession::measure() {
  Arena arena;
  Stream stream = stream_;
  stream.arena = &arena;
  uint64_t flops = 0;
  ops::PickRecord picks;
  stream.hooks.flops = &flops, stream.hooks.picks = &picks;
  WorldRun run(setup_, gpu_, stream);
  run.begin({});
  ActionTrack track(model().dit.actions);
  const std::vector<float> keys(config_.keys.size()), mouse(config_.mouse ? 2 : 0);
  const int64_t blocks = 2 + (config_.window - config_.first_block + config_.block - 1) / config_.block;
  for (int64_t i = 0; i < blocks; ++i)
    run.block(track.add(run.latent_frames(), run.next_block_frames(), keys, mouse), nullptr, {});
  parts_ = run.parts();
  arena_bytes_ = align_up(std::max<size_t>(arena.peak(), 1));
  plan_.stages = {{.name = "world",
                   .weight_bytes = run.bytes(),
                   .arena_bytes = arena_bytes_,
                   .flops = static_cast<double>(flops),
                   .picks = picks.picks()}};
  plan_.peak_bytes = run.bytes() + arena_bytes_;
  if (!model_->memory()) {
    plan_.shared_bytes = model().read_bytes(), plan_.peak_bytes += plan_.shared_bytes;
    return;
  }
  if (gpu_ && setup_.graphs)
    plan_.graph_bytes =
        causal_graph_bytes(model().dit, {.frames = config_.window, .sinks = config_.sinks}, config_.block);
  const Budget may = model_->tenancy().budget((gpu_ ? kGpuLibraryBytes : 0) + plan_.graph_bytes);
  plan_.budget_bytes = may.bytes, plan_.budget = may.why;
  plan_.would_fit = "a smaller size or a shorter `window`";
}

std::vector<int64_t> WorldSession::read_prompt(const std::string& prompt) {
  if (!tokenizer_) tokenizer_ = open_tokenizer(model());
  return prompt_ids(*tokenizer_, "prompt", prompt, static_cast<int>(WorldRun::kTextRows));
}

void WorldSession::start(const WorldInput& input, uint64_t seed) {
  noise_.reset(), track_.reset();
  seed_ = seed;
  run_->begin(input);
  begin_again();
}

void WorldSession::reset() {
  noise_.reset(), track_.reset();
  run_->rewind();
  begin_again();
}

void WorldSession::watch(Profiler* profiler) {
  stream_.hooks.profiler = nullptr;
  if (device_times_) device_times_->resolve();
  device_times_.reset();
  auto* const times = dynamic_cast<DeviceTimes*>(profiler);
  if (stream_.gpu && times) device_times_.emplace(*stream_.gpu, *profiler, *times);
  stream_.hooks.profiler = device_times_ ? &*device_times_ : profiler;
}

void WorldSession::begin_again() {
  VideoRequest request;
  request.seed = seed_;
  noise_.emplace(request);
  track_.emplace(model().dit.actions);
}

WorldSession::Block WorldSession::next(const std::function<Action()>& action, const WorldRun::Frame& frame) {
  check(noise_ && track_, ErrorCode::internal, "world: a block before a session began");
  const int64_t first = run_->latent_frames(), frames = run_->next_block_frames();
  run_->settle();
  Action held = action();
  const bool resting = std::ranges::all_of(held.keyboard, [](float v) { return v == 0; });
  if (config_.rest_key >= 0 && resting) held.keyboard.at(static_cast<size_t>(config_.rest_key)) = 1;
  run_->block(track_->add(first, frames, held.keyboard, held.mouse), &*noise_, frame);
  const int64_t before = pixel_frames(first);
  return {before, pixel_frames(first + frames) - before};
}

}  // namespace tachy
