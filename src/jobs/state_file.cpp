#include "jobs/state_file.h"

#include <algorithm>

#include "base/clock.h"
#include "base/json_mistake.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/part_name.h"
#include "jobs/output_name.h"
#include "jobs/settings.h"
#include "jobs/settings_environment.h"
#include "text/utf8.h"

namespace tachy::jobs {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A header cannot hold a name that is not UTF-8: this stands for the state file's own name.
constexpr const char* kSameName = ".";
std::string name_in_state(const fs::path& output) {
  const std::string name = own_name(output);
  if (text::find_invalid_utf8(name) == text::kValid) return name;
  return kSameName + std::string(is_folder(output) ? "/" : "");
}

}  // namespace

StateFile::StateFile(const fs::path& output, const json& settings, double every_seconds,
                     std::function<std::string()> model, const std::atomic<bool>* cancel)
    : path_(path_of(output)),
      settings_(settings),
      output_name_(name_in_state(output)),
      every_seconds_(every_seconds),
      start_(monotonic_seconds()),
      last_(start_),
      ask_model_(std::move(model)),
      windows_(beside(output, ".windows"), cancel) {}

fs::path StateFile::path_of(const fs::path& output) { return beside(output, ".resume"); }

fs::path StateFile::output_of(const fs::path& state_file) {
  const SavedRun saved = read_run_state(state_file);
  const auto name = saved.about.find("output");
  check(
      name != saved.about.end() && !name->second.empty() && name->second.find('/') >= name->second.size() - 1,
      ErrorCode::corrupt, "{}: this is not the state of a run", state_file.string());
  if (name->second != kSameName && name->second != std::string(kSameName) + "/")
    return state_file.parent_path() / name->second;
  fs::path output = state_file;
  output.replace_extension();
  return name->second.ends_with('/') ? output / "" : output;
}

bool StateFile::exists() const {
  std::error_code ec;
  return fs::is_regular_file(path_, ec);
}

void StateFile::refuse_others() const {
  std::error_code ec;
  const auto refuse = [](const fs::path& path, const char* what) {
    fail(ErrorCode::io,
         "{}: this is {}, and a run with this output would write there; move it away, or name another output",
         path.string(), what);
  };
  if (!fs::exists(fs::symlink_status(path_, ec))) {
    if (const fs::path other = windows_.others(); !other.empty()) refuse(other, "no window of a run");
    return;
  }
  try {
    read_run_state(path_);
  } catch (const Error&) {
    refuse(path_, "not the state of a run");
  }
}

const std::string& StateFile::model() {
  if (coming_model_.valid()) return coming_model_.get();
  if (model_.empty()) model_ = ask_model_();
  return model_;
}

std::optional<RunState> StateFile::load() {
  if (!exists()) return std::nullopt;
  SavedRun saved = read_run_state(path_);
  json settings;
  try {
    settings = parse_json_line(saved.about["settings"]);
  } catch (const json::exception& e) {
    fail(ErrorCode::corrupt, "{}: its settings are damaged: {}", path_.string(), json_words(e.what()));
  }
  check(settings.is_object(), ErrorCode::corrupt, "{}: its settings are damaged", path_.string());
  std::string differs = difference(settings, settings_);
  if (saved.about["model"] != model())
    differs += std::string(differs.empty() ? "" : ", ") + "the model's files";
  require(differs.empty(),
          "`resume`: {} belongs to a different run: {}; give the same options, or leave out `resume` to "
          "start from the beginning",
          path_.string(), differs);
  warn_of_environment("`resume`: " + path_.string(),
                      naming(path_.string(), [&] { return environment_in(settings); }), settings_);
  const RunState& state = saved.state;
  try {
    windows_.take(parse_json_line(state.window > 0 ? saved.about["window_files"] : "[]"), state.window,
                  state.frames);
  } catch (const json::exception& e) {
    fail(ErrorCode::corrupt, "{}: its record of finished windows is damaged: {}", path_.string(),
         json_words(e.what()));
  }
  saved_ = {state.step, state.window, state.windows};
  window_ = state.window, count_ = state.windows;
  return std::move(saved.state);
}

void StateFile::remove() {
  settle();
  std::error_code ec;
  fs::remove(path_, ec);
  remove_left_parts(path_);
  windows_.remove();
}

std::string StateFile::going_on() const {
  return fmt::format(" ({} is saved: the same command with `resume` continues from there)", saved());
}

std::string StateFile::saved() const {
  if (!saved_) return "";
  const auto [step, window, windows] = *saved_;
  const auto block = settings_.find("causal_block");  // set for a video that is made block by block
  if (block != settings_.end() && *block != 0) return fmt::format("block {}", step);
  if (windows == 1) return fmt::format("step {}", step);
  if (step == 0) return fmt::format("window {} of {}", window, windows);
  return fmt::format("step {} of window {} of {}", step, window + 1, windows);
}

}  // namespace tachy::jobs
