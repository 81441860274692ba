#include "state_file.h"

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "settings.h"

namespace tachy::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kShare = 20;  // a write's cost times this passes before the next

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool is_folder(const fs::path& output) { return output.filename().empty(); }

}  // namespace

StateFile::StateFile(const fs::path& output, const json& settings, double every_seconds,
                     std::function<std::string()> model)
    : path_(path_of(output)),
      settings_(settings),
      output_name_(is_folder(output) ? output.parent_path().filename().string() + "/"
                                     : output.filename().string()),
      every_seconds_(every_seconds),
      start_(now()),
      last_(start_),
      ask_model_(std::move(model)) {}

fs::path StateFile::path_of(const fs::path& output) {
  fs::path path = is_folder(output) ? output.parent_path() : output;
  return path += ".resume";
}

fs::path StateFile::output_of(const fs::path& state_file) {
  const SavedRun saved = read_run_state(state_file);
  const auto name = saved.about.find("output");
  check(
      name != saved.about.end() && !name->second.empty() && name->second.find('/') >= name->second.size() - 1,
      ErrorCode::corrupt, "{}: this is not the state of a run", state_file.string());
  return state_file.parent_path() / name->second;
}

bool StateFile::exists() const {
  std::error_code ec;
  return fs::is_regular_file(path_, ec);
}

const std::string& StateFile::model() {
  if (model_.empty()) model_ = ask_model_();
  return model_;
}

std::optional<RunState> StateFile::load() {
  if (!exists()) return std::nullopt;
  SavedRun saved = read_run_state(path_);
  json settings;
  try {
    settings = json::parse(saved.about["settings"]);
  } catch (const json::exception& e) {
    fail(ErrorCode::corrupt, "{}: its settings are damaged: {}", path_.string(), e.what());
  }
  check(settings.is_object(), ErrorCode::corrupt, "{}: its settings are damaged", path_.string());
  std::string differs = difference(settings, settings_);
  if (saved.about["model"] != model())
    differs += std::string(differs.empty() ? "" : ", ") + "the model's files";
  require(differs.empty(),
          "--resume: {} is of a run that differs: {}; give the same, or leave out --resume to begin anew",
          path_.string(), differs);
  saved_step_ = saved.state.step;
  return std::move(saved.state);
}

void StateFile::step(const RunStateView& state) {
  const double time = now();
  // The last step is saved whenever the run was not a short one: frames may take long too. 0 means every
  // step, whatever that costs.
  const bool final = state.step == state.steps;
  const double wait =
      final || every_seconds_ == 0 ? every_seconds_ : std::max(every_seconds_, cost_ * kShare);
  if (broken_ || time - (final ? start_ : last_) < wait) return;
  try {
    write_run_state(path_, state,
                    {{"settings", settings_.dump()}, {"model", model()}, {"output", output_name_}});
    saved_step_ = state.step;
  } catch (const Error& e) {
    if (e.code() != ErrorCode::io) throw;
    broken_ = true;
    warn("the state for --resume cannot be saved, the run goes on without: {}", e.message());
  }
  last_ = now(), cost_ = last_ - time;
}

void StateFile::remove() {
  std::error_code ec;
  fs::remove(path_, ec);
  fs::remove(path_.string() + ".part", ec);  // of a process that died while it wrote
}

}  // namespace tachy::cli
