#include "session/session.h"

#include <algorithm>

#include "base/env.h"
#include "base/profile_range.h"
#include "ops/pick_record.h"
#include "session/stage_clock.h"
#include "tensor/streaming_memory.h"
#include "tensor/work_tally.h"

namespace tachy {

std::optional<runtime::RankLayout> asked_layout(const Parallel& p) {
  const runtime::RankLayout asked{.groups = p.cfg, .per_group = p.ulysses * p.ring, .ring = p.ring};
  return p.automatic() ? std::nullopt : std::optional(asked);
}

Session::Session(Model& model, std::shared_ptr<cuda::Gpu> gpu, Kind kind)
    : model_(model),
      gpu_(std::move(gpu)),
      kind_(kind),
      between_(kind == Kind::measuring ? Arena() : Arena(0)) {}

void Session::begin(const Setup& setup) {
  setup_ = setup;
  stream_ = {.arena = &between_,
             .pool = &model_.pool(),
             .gpu = gpu_.get(),
             .memory = gpu_ ? gpu_.get() : model_.memory(),
             .precision = setup.precision,
             .without = setup.without};
  stream_.hooks.cancel = setup.cancel;
  if (setup.callbacks)
    stream_.hooks.cancel = setup.callbacks->cancel, stream_.hooks.hold = setup.callbacks->hold;
  stream_.hooks.profiler = setup.profiler;
  if (const int ranks = setup.placement.ranks; ranks > 1 && model_.on_gpus()) {
    if (!devices_ && !measuring())
      devices_.emplace(gpu_, std::span<const int>(model_.options().gpus).subspan(1));
  } else if (ranks <= 1 || crew()) {
    ranks_.reset();
  } else if (!ranks_ || ranks_->size() != ranks) {
    ranks_.emplace(ranks, model_.threads(), asked_layout(model_.options().parallel));
  }
  found_bytes_ = 0;
  if (measuring()) return;
  const Layout wanted = keeps() ? layout_of(*setup.plan) : Layout();
  if (wanted != layout_) drop();
  if (!keeps()) return;
  begin_again();
  if (arena_) return arena_->rewind(0);
  const MemoryLabel label("activations");
  size_t most = 1;
  for (const StagePlan& s : setup.plan->stages) most = std::max<size_t>(most, s.arena_bytes);
  arena_.emplace(most, stream_.memory, arena_kind());
  layout_ = wanted;
}

void Session::end(bool well) noexcept {
  if (!well || !keeps()) drop();
  held_.clear();
  holds_ = false;
  stream_.hooks = {}, stream_.arena = &between_;
  setup_ = {};
}

void Session::drop() {
  for (runtime::StepGraph& graph : graphs_) graph.forget();
  for (BufferShelf& shelf : denoisers_) shelf.clear();
  for (AdapterShelf& shelf : adapters_) shelf.clear();
  loop_.clear();
  frame_slots_.release();
  if (devices_) devices_->drop();
  arena_.reset();
  layout_.clear();
}

Session::Layout Session::layout_of(const VideoPlan& plan) {
  Layout out{plan.shared_bytes};
  for (const StagePlan& s : plan.stages) out.insert(out.end(), {s.weight_bytes, s.arena_bytes});
  return out;
}

uint64_t Session::kept_bytes() const {
  return (arena_ ? align_up(arena_->capacity()) : 0) + denoisers_[0].bytes() + denoisers_[1].bytes() +
         adapters_[0].kept_bytes() + adapters_[1].kept_bytes() + loop_.bytes();
}

runtime::RankLayout Session::layout_of_gpus(int64_t branches, int64_t tokens) const {
  const auto asked = asked_layout(model_.options().parallel);
  return asked ? *asked : runtime::RankLayout::of(gpu_ranks(), branches, tokens);
}

runtime::StepGraph* Session::graph(int expert) {
  if (!setup_.graphs || measuring()) return nullptr;
  return &graphs_.at(static_cast<size_t>(expert));
}

BufferShelf* Session::denoiser_shelf(int expert) {
  return keeps() ? &denoisers_.at(static_cast<size_t>(expert)) : nullptr;
}

int64_t Session::streamed(Part part) const {
  if (part == Part::text) return setup_.placement.text;
  return part == Part::transformer || part == Part::transformer_2 ? setup_.placement.denoise : 0;
}

// A part with streamed blocks belongs to this session alone: its slots hold what this session's queue
// computes with.
const LoadedPart& Session::use(Part part) {
  PartCache::Handle& held = held_[part];
  const PartKey own(part, setup_.precision, merged_into(part), setup_.vae, setup_.placement.keys_stay);
  if (!held && (measuring() || streamed(part) > 0)) held = load(part);
  if (!held)  // only one form of a part is kept, and only the last one that has adapters merged into it
    model_.parts().drop_idle([&](const PartKey& key) {
      return key.part == part &&
             (key.keys_stay != own.keys_stay || (!key.adapters.empty() && key.adapters != own.adapters));
    });
  if (!held) {
    // Those who wait for this part must not wait until a hold of this run ends.
    struct Awaited {
      Hooks& hooks;
      ~Awaited() { hooks.awaited = nullptr; }
    } const until_loaded{stream_.hooks};
    stream_.hooks.awaited = &model_.parts().awaited(own);
    bool found = true;
    held = model_.parts().get(own, setup_.placement.keeps, {stream_.hooks.cancel, stream_.hooks.hold},
                              [&] { return found = false, load(part); });
    if (found) found_bytes_ = keeps() ? found_bytes_ + held->bytes : std::max(found_bytes_, held->bytes);
  }
  blocks_ = held->blocks;
  most_part_bytes_ = std::max(most_part_bytes_, part_bytes());
  return *held;
}

const std::string& Session::merged_into(Part part) const {
  static const std::string none;
  return setup_.adapters ? setup_.adapters->key(part) : none;
}

PartCache::Handle Session::load(Part part) {
  const ProfileRange range(stream_.hooks.profiler, load_range(part), ProfileKind::load);
  nn::UploadCheck* const check = measuring() ? nullptr : model_.upload_check();
  if (check) check->begin(part_name(part));
  LoadHow how{.weights = model_.options().weights,
              .streamed = streamed(part),
              .keys_stay = setup_.placement.keys_stay,
              .progress = {},
              .vae = setup_.vae};
  std::optional<StageClock> clock;
  if (!measuring() && (part == Part::transformer || part == Part::transformer_2)) {
    clock.emplace(callbacks(), "load", model().dit.num_layers);
    how.progress = [&](int64_t done, int64_t) { clock->done(done); };
  }
  const bool named = part == Part::text && text_cache() && !measuring();
  const std::string fingerprint = named ? encoder_fingerprint(model()) : "";
  const std::shared_ptr<LoadedPart> out = load_part(model(), part, how, stream_);
  out->fingerprint = fingerprint;
  if (measuring()) return out;
  if (gpu_) {
    out->device = gpu_;
    gpu_->synchronize();  // from here on any queue may read the part
  }
  if (check) check->verify(part_name(part), part_file(model(), part), "after loading");
  return out;
}

void Session::give_back(Part part, const char* when) {
  if (nn::UploadCheck* check = model_.upload_check(); check && when && !measuring() && held_.contains(part))
    check->verify(part_name(part), part_file(model(), part), when);
  if (!setup_.placement.keeps && !holds_) held_.erase(part);
}

uint64_t Session::part_bytes() const {
  uint64_t total = 0;
  for (const auto& [part, held] : held_)
    if (held) total += held->bytes;
  return total;
}

StagePlan Session::run(const Stage& stage, Job& job) {
  StagePlan out{.name = stage.name(), .mapped_bytes = stage.mapped_bytes(model(), job)};
  if (measuring())
    measure(stage, job, out);
  else
    compute(stage, job);
  stream_.arena = &between_;
  return out;
}

void Session::measure(const Stage& stage, Job& job, StagePlan& out) {
  stream_.throw_if_cancelled();
  Arena arena;
  uint64_t flops = 0;
  ops::PickRecord picks;
  stream_.arena = &arena;
  if (WorkTally* tally = WorkTally::current()) tally->begin_stage(out.name);
  stream_.hooks.flops = &flops, stream_.hooks.picks = &picks;
  most_part_bytes_ = 0, blocks_ = {};
  out.weight_bytes = stage.run(job, *this);
  out.part_bytes = most_part_bytes_;
  out.arena_bytes = align_up(std::max<size_t>(arena.peak(), 1));
  out.flops = static_cast<double>(flops);
  out.blocks = blocks_.blocks, out.streamed = blocks_.streamed;
  out.block_bytes = blocks_.block_bytes, out.host_bytes = blocks_.host_bytes;
  out.picks = picks.picks();
  if (out.name == "text") out.adapters = merged_into(Part::text);
  if (out.name == "denoise")
    out.adapters = merged_into(Part::transformer), out.adapters_2 = merged_into(Part::transformer_2);
  stream_.hooks.flops = nullptr, stream_.hooks.picks = nullptr;
  if (!holds_) held_.clear();  // each stage is counted by itself, even if parts stay for another request
}

// Computes in an arena of the planned size. Errors of a device name the stage.
void Session::compute(const Stage& stage, Job& job) {
  const char* const name = stage.name();
  const VideoPlan& plan = *setup_.plan;
  const MemoryLabel weights(fmt::format("{}: weights, tables", name));
  try {
    std::optional<Arena> own;
    if (!keeps()) {
      const MemoryLabel activations(fmt::format("{}: activations", name));
      own.emplace(stage_plan(plan, name).arena_bytes, stream_.memory, arena_kind());
    }
    stream_.arena = own ? &*own : &*arena_;
    ops::PickCheck picks(stage_plan(plan, name).picks);
    stream_.hooks.planned = &picks;
    stage.run(job, *this);
    stream_.hooks.planned = nullptr;
    if (callbacks() && callbacks()->picks) callbacks()->picks(name, picks.picks());
  } catch (const Error& e) {
    stream_.arena = &between_, stream_.hooks.planned = nullptr;
    const bool device = e.code() == ErrorCode::device || e.code() == ErrorCode::out_of_memory;
    if (!stream_.memory || !device) throw;
    std::string text = fmt::format("{}: {}", name, e.message());
    if (e.code() == ErrorCode::out_of_memory)
      text += fmt::format(
          "\nthe plan needed {} and {} allowed {} when the run began: something else has taken memory since",
          human_bytes(plan.peak_bytes), plan.budget, human_bytes(plan.budget_bytes));
    throw Error(e.code(), text, e.where());
  }
}

}  // namespace tachy
