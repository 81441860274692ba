// A session's transformers have more than their weights: the adapters of a job, and the copies on further GPUs.
#include "session/session.h"
#include "tensor/streaming_memory.h"

namespace tachy {

// Returns what the job adds to an expert's products on one device; null: nothing.
const nn::AdapterSet* Session::adapter_set(int expert, const LoadedDit& network, AdapterShelf& shelf,
                                           Stream& stream) {
  stream.adapters = nullptr;
  const auto i = static_cast<size_t>(expert);
  if (!setup_.adapters || setup_.adapters->added.at(i).empty()) return nullptr;
  const RequestAdapters& all = *setup_.adapters;
  for (const auto& file : all.files) file->check_files();
  return &shelf.put({.adapters = all.added.at(i),
                     .key = all.added_keys.at(i),
                     .linears = network.model->linears(),
                     .model = ModelBundle::transformer_name(expert)},
                    keeps(), stream);
}

void Session::add_adapters(int expert) {
  stream_.adapters =
      adapter_set(expert, transformer(expert), adapters_.at(static_cast<size_t>(expert)), stream_);
}

void Session::add_adapters_of(int expert, int rank) {
  RankDevices::Place& place = devices_->place(rank);
  place.stream.adapters = adapter_set(expert, transformer_of(expert, rank),
                                      place.adapters.at(static_cast<size_t>(expert)), place.stream);
}

// The further GPUs hold no more than the first one does, for which the plan is.
bool Session::decoder_fits_beside() {
  constexpr uint64_t kSpare = uint64_t{2} << 30;
  for (const StagePlan& stage : setup_.plan->stages)
    if (stage.name == "decode") return devices_->has_room(stage.weight_bytes + stage.arena_bytes + kSpare);
  return false;
}

void Session::drop_adapters(int expert, bool another_comes) {
  stream_.adapters = nullptr;
  adapters_.at(static_cast<size_t>(expert)).release();
  if (!devices_) return;
  const bool until_the_end = !another_comes && !keeps() && decoder_fits_beside();
  devices_->leave(expert, holds_ || until_the_end);
}

const LoadedDit& Session::transformer_of(int expert, int rank) {
  RankDevices::Place& place = devices_->place(rank);
  return static_cast<const LoadedDit&>(
      part_of(transformer_part(expert), rank, place.transformers.at(static_cast<size_t>(expert))));
}

const LoadedVae& Session::vae_decoder_of(int rank) {
  return static_cast<const LoadedVae&>(part_of(Part::vae_decoder, rank, devices_->place(rank).vae_decoder));
}

const LoadedPart& Session::part_of(Part part, int rank, std::shared_ptr<const LoadedPart>& held) {
  RankDevices::Place& place = devices_->place(rank);
  const bool stay = setup_.placement.keys_stay;
  const PartKey own(part, setup_.precision, merged_into(part), setup_.vae, stay);
  const cuda::GpuInfo &first = gpu_->info(), &mine = place.gpu->info();
  const bool alike = first.capability() == mine.capability();  // other GPUs may keep weights in another form
  const auto load = [&] {
    const MemoryLabel weights("ranks: weights, tables");
    LoadHow how{.weights = model_.options().weights, .keys_stay = stay, .vae = setup_.vae};
    if (alike) how.twin = held_.at(part)->memory;
    auto out = load_part(model(), part, how, place.stream);
    out->device = place.gpu;
    place.gpu->synchronize();
    return out;
  };
  if (!held)
    held =
        model_.parts(rank).get(own, setup_.placement.keeps, {stream_.hooks.cancel, stream_.hooks.hold}, load);
  return *held;
}

}  // namespace tachy
