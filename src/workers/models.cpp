#include "workers/models.h"

#include <chrono>

namespace tachy::workers {
namespace {

int64_t time_of(const std::filesystem::path& path) {
  std::error_code ec;
  const auto time = std::filesystem::last_write_time(path, ec);
  if (ec) return 0;
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::file_clock::to_sys(time).time_since_epoch())
      .count();
}

}  // namespace

struct Models::State {
  struct Place {
    std::mutex opening;              // is held by whoever opens the model
    std::shared_ptr<Engine> engine;  // guarded by State::mutex
  };

  std::vector<ServedModel> all;
  EngineOptions engine;
  std::vector<std::string> cards;
  mutable std::mutex mutex;
  std::vector<std::unique_ptr<Place>> places;  // for each of `all` one on each card

  const ServedModel* find(const std::string& name) const {
    for (const ServedModel& m : all)
      if (name.empty() ? !m.world : m.name == name) return &m;
    return nullptr;
  }
  Place& place(const ServedModel& model, int card) const {
    return *places[static_cast<size_t>(&model - all.data()) * cards.size() + static_cast<size_t>(card)];
  }
  std::shared_ptr<Engine> opened(const Place& place) const {
    const std::lock_guard lock(mutex);
    return place.engine;
  }
};

Models::Models(std::vector<ServedModel> models, EngineOptions engine, std::vector<std::string> cards)
    : state_(std::make_unique<State>()) {
  state_->all = std::move(models), state_->engine = std::move(engine), state_->cards = std::move(cards);
  if (state_->cards.empty()) state_->cards = {choose_device(state_->engine.device)};
  state_->engine.gpus.clear();  // each card has engines of its own
  state_->engine.keep_loaded = state_->engine.shares_vram = state_->engine.waits_for_worlds = true;
  for (ServedModel& m : state_->all) {
    for (size_t card = 0; card < state_->cards.size(); ++card)
      state_->places.push_back(std::make_unique<State::Place>());
    if (m.since == 0) m.since = time_of(m.path);
  }
}

Models::~Models() = default;

const std::vector<ServedModel>& Models::all() const { return state_->all; }
const ServedModel* Models::find(const std::string& name) const { return state_->find(name); }
bool Models::on_gpu() const { return state_->cards.front() != "cpu"; }
int Models::cards() const { return static_cast<int>(state_->cards.size()); }

std::shared_ptr<Engine> Models::open(const std::string& name, int card) {
  const ServedModel* const model = find(name);
  check(model != nullptr, ErrorCode::not_found, "`model`: there is no model '{}' here", name);
  State::Place& place = state_->place(*model, card);
  if (auto engine = state_->opened(place)) return engine;
  const std::lock_guard opening(place.opening);
  if (auto engine = state_->opened(place)) return engine;  // somebody else has opened it meanwhile
  EngineOptions options = state_->engine;
  options.device = state_->cards[static_cast<size_t>(card)];
  auto engine = std::make_shared<Engine>(model->path, options);
  const std::lock_guard lock(state_->mutex);
  return place.engine = std::move(engine);
}

std::shared_ptr<Engine> Models::opened(const std::string& name, int card) const {
  const ServedModel* const model = find(name);
  return model ? state_->opened(state_->place(*model, card)) : nullptr;
}

}  // namespace tachy::workers
