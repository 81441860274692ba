#include "models/wan_vae/network.h"

#include <algorithm>

#include "runtime/pace.h"
#include "tensor/transfer.h"

namespace tachy::wan_vae {

void Network::change(LayerPtr layer, int64_t channels, int levels, bool in_time) {
  level_ += levels;
  time_level_ += in_time ? 1 : 0;
  Group& group = groups_.emplace_back();
  group.layers.push_back(std::move(layer));
  group.channels = channels, group.level = level_, group.time_level = time_level_;
}

void Network::res_block(const Loader& loader, int64_t ci, int64_t co) {
  LayerPtr block = make_res_block(loader, ci, co);
  if (ci == co)
    keep_shape(std::move(block));
  else
    change(std::move(block), co);
}

int Network::save() {
  const int id = static_cast<int>(saves_.size());
  saves_.push_back({groups_.back().channels, level_, time_level_});
  keep_shape(make_save(id));
  return id;
}

void Network::add_saved(int id, LayerPtr layer) {
  groups_.back().saves.push_back(id);
  keep_shape(std::move(layer));
}

void Network::finish(const Scope& scope, int64_t input_frames_multiple) {
  frames_multiple_ = input_frames_multiple;
  // Shortcuts around blocks would reach past it.
  for (size_t i = 0; i < groups_.size() && steady_ == 0 && saves_.empty(); ++i)
    if (direction_ == Direction::down && groups_[i].time_level > 0) steady_ = i;
  mapping_ = scope.keep();  // 1x1 convolutions may read their weight directly from the file
  buffer_bytes_ = store_->bytes();
  planned_ = store_->plan_only();
  memory_ = store_->keep();
  store_ = nullptr;
}

size_t Network::state_bytes(int64_t height, int64_t width, bool single, int ranks) const {
  Arena measure;
  const Stream stream{.arena = &measure, .pool = nullptr};
  if (ranks == 1) return make_state(height, width, single, stream).bytes;
  size_t all = 0;
  for (int rank = 0; rank < ranks; ++rank)
    all += align_up(make_state(height, width, single, stream, {rank, ranks, units(height)}).bytes);
  return all;
}

VaeState Network::make_state(int64_t height, int64_t width, bool single, const Stream& stream,
                             const runtime::Bands& bands, int64_t chunk) const {
  VaeState state;
  state.height = height, state.width = width, state.bands = bands;
  state.caches.resize(slots_.size());
  if (single) return state;
  const auto shape = [&](const Slot& slot, void* data, Device device) {
    return Tensor(
        data, slot.codes ? codes_of(precision_) : precision_.activation,
        {slot.frames, bands.held(scaled(height, slot.level)), scaled(width, slot.level), slot.channels},
        device);
  };
  for (const Slot& slot : slots_)
    state.bytes += align_up(static_cast<size_t>(shape(slot, nullptr, Device::null).bytes()));
  const size_t caches = state.bytes, row = static_cast<size_t>(chunk) * row_bytes(width);
  state.bytes += bands.mail_bytes(row);
  const bool measuring = stream.measuring();
  if (!measuring) state.buffer = Buffer(state.bytes, stream.memory);
  const auto at = [&](size_t offset) {
    return measuring ? planned_address(offset) : static_cast<char*>(state.buffer.data()) + offset;
  };
  if (state.bytes > caches) state.bands.set_mail(at(caches), row);
  size_t offset = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    state.caches[i].frames = shape(slots_[i], at(offset), measuring ? Device::null : stream.device());
    offset += align_up(static_cast<size_t>(state.caches[i].frames.bytes()));
  }
  return state;
}

size_t Network::row_bytes(int64_t width) const {
  int64_t most = 0, before = 0;
  for (const Group& g :
       groups_) {  // a group's first layer may have the channels before it at the size after it
    const int64_t frames = direction_ == Direction::up ? int64_t{1} << g.time_level : frames_multiple_;
    most = std::max(most, frames * scaled(width, g.level) * std::max(g.channels, before));
    before = g.channels;
  }
  return static_cast<size_t>(most * dtype_size(precision_.activation));
}

std::vector<int64_t> Network::dims(const VaeState& state, int64_t frames, int64_t channels, int level,
                                   int time_level) const {
  return {state.next_frame == 0 ? 1 : scaled(frames, time_level),
          state.bands.held(scaled(state.height, level)), scaled(state.width, level), channels};
}

std::vector<int64_t> Network::output_dims(const VaeState& state, int64_t frames) const {
  const Group& last = groups_.back();
  return dims(state, frames, last.channels, last.level, last.time_level);
}

std::vector<int64_t> Network::steady_dims(const VaeState& state, int64_t frames) const {
  if (steady_ == 0) return {};
  const Group& g = groups_[steady_];
  return {scaled(frames, g.time_level), state.bands.held(scaled(state.height, g.level)),
          scaled(state.width, g.level), g.channels};
}

void Network::run(const Tensor& x, const Tensor& y, VaeState& state, Stream& stream,
                  const SteadyPart& steady) const {
  const int64_t frames = x.dim(0);
  check(!planned_ || stream.measuring(), ErrorCode::internal,
        "vae: made on a measuring stream, it cannot compute");
  expect_same_weights("vae", precision_, stream.precision);
  require(state.next_frame > 0 || frames == 1, "vae: expected the first frame alone, got a chunk of {}",
          frames);
  require(state.next_frame == 0 || frames % frames_multiple_ == 0,
          "vae: expected chunks of a multiple of {} frames after the first, got {}", frames_multiple_,
          frames);
  require(state.next_frame == 0 || state.caches[0].frames.defined(),
          "vae: the state was made for a single frame, got a second chunk");
  Pass pass{.stream = stream, .state = state, .saved = std::vector<Tensor>(saves_.size()), .steady = steady};
  run_group(groups_.size() - 1, x, y, pass, frames);
  state.next_frame += frames;
}

// Returns the dtype of normed inputs in a group: that of numbers if one of its layers needs numbers.
DType Network::room_dtype(const Group& group) const {
  for (size_t i = 1; i < group.layers.size(); ++i)
    if (group.layers[i]->input_gamma() && group.layers[i]->input_scale() == 0) return precision_.activation;
  return codes_of(precision_);
}

void Network::run_group(size_t index, const Tensor& x, const Tensor& y, Pass& pass, int64_t frames) const {
  const Group& group = groups_[index];
  const bool steady = index == steady_ && index > 0;
  Arena& arena = *pass.stream.arena;
  ArenaScope scope(arena);
  for (int id : group.saves) {
    const Save& save = saves_[static_cast<size_t>(id)];
    std::vector<int64_t> saved = dims(pass.state, frames, save.channels, save.level, save.time_level);
    saved[1] = pass.state.bands.rows(scaled(pass.state.height, save.level)).count();
    pass.saved[static_cast<size_t>(id)] = arena.tensor(precision_.activation, saved);
  }
  if (steady && pass.steady.taken) {
    copy_bytes(pass.steady.output, y, pass.stream);
  } else {
    ArenaScope input_scope(arena);
    Tensor input = x;
    if (index > 0) {
      const Group& before = groups_[index - 1];
      input = arena.tensor(precision_.activation,
                           dims(pass.state, frames, before.channels, before.level, before.time_level));
      run_group(index - 1, x, input, pass, frames);
    }
    runtime::checkpoint(pass.stream);
    const ProfileRange range(pass.stream.hooks.profiler, group.layers.front()->name(), ProfileKind::group,
                             static_cast<int64_t>(index));
    pass.next_gamma = nullptr;
    group.layers.front()->run(input, y, pass);
  }
  if (steady && pass.steady.keeps) copy_bytes(y, pass.steady.output, pass.stream);
  const auto normalising = [](const LayerPtr& layer) { return layer->input_gamma() != nullptr; };
  if (std::any_of(group.layers.begin() + 1, group.layers.end(), normalising))
    pass.room = arena.tensor(room_dtype(group), y.shape());
  const Layer* after = index + 1 < groups_.size() ? groups_[index + 1].layers.front().get() : nullptr;
  for (size_t i = 1; i < group.layers.size(); ++i) {
    const bool last = i + 1 == group.layers.size();
    pass.next_in_place = last;
    const Layer* next = !last ? group.layers[i + 1].get() : after && !after->needs_input() ? after : nullptr;
    pass.next_gamma = next ? next->input_gamma() : nullptr;
    pass.next_scale = next ? next->input_scale() : 0;
    runtime::checkpoint(pass.stream);
    const ProfileRange range(pass.stream.hooks.profiler, group.layers[i]->name(), ProfileKind::group,
                             static_cast<int64_t>(index));
    group.layers[i]->run(y, y, pass);
  }
}

}  // namespace tachy::wan_vae
