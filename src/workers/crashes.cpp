#include "workers/crashes.h"

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/last_words.h"
#include "base/text_file.h"
#include "jobs/state_file.h"
#include "media/files.h"

namespace tachy::workers {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kMostCrashes = 2, kMostKills = 10;
// A process that was killed before it had lived so long may just not have come to anything.
constexpr std::chrono::seconds kTimeToGetFurther{30};

fs::path notes_of(const queue::JobFolder& folder) { return folder.path / "deaths.json"; }

// Changes whenever the job has got further: a state was saved, or more of it is done than ever before.
std::string how_far(const queue::JobRow& row, const queue::JobFolder& folder) {
  const fs::path state = jobs::StateFile::path_of(folder.video());
  std::error_code ec;
  const auto time = fs::last_write_time(state, ec);
  return fmt::format("{} {}", row.progress, ec ? 0 : time.time_since_epoch().count());
}

json read_notes(const fs::path& file) {
  try {
    const json notes = parsed_or_discarded(read_text_file(file, 1 << 16));
    if (notes.is_object()) return notes;
  } catch (const Error&) {  // there are none yet
  }
  return json::object();
}

int count_of(const json& notes, const char* key) {
  return notes.contains(key) && notes[key].is_number_integer() ? notes[key].get<int>() : 0;
}

extern "C" void on_crash(int signal) {
  remove_temporaries();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

// The file's time is that of the last touch(), and its text the time of the start.
CrashMark::CrashMark(const fs::path& files) : file_(files / "running") {
  std::error_code ec;
  const auto last = fs::last_write_time(file_, ec);
  if (!ec) {
    int64_t start = 0;
    std::ifstream(file_) >> start;
    const auto lived = last.time_since_epoch() - fs::file_time_type::duration(start);
    death_ = start != 0 && lived >= kTimeToGetFurther ? Death::kill : Death::early_kill;
  }
  std::ofstream(file_) << fs::file_time_type::clock::now().time_since_epoch().count() << '\n';
  note_temporary(file_.native());
}

void CrashMark::touch() const {
  std::error_code ec;  // it only says less then
  fs::last_write_time(file_, fs::file_time_type::clock::now(), ec);
}

CrashMark::~CrashMark() {
  std::error_code ec;
  fs::remove(file_, ec);
  forget_temporary(file_.native());
}

void leave_word_of_crashes() {
  for (const int signal : {SIGSEGV, SIGILL, SIGFPE, SIGABRT}) std::signal(signal, on_crash);
}

bool crashed_too_often(const queue::JobRow& row, const queue::JobFolder& folder, CrashMark::Death death) {
  json notes = read_notes(notes_of(folder));
  const std::string now = how_far(row, folder);
  if (notes.value("at", json()) != now) notes = {{"at", now}, {"crashes", 0}, {"kills", 0}};
  const int crashes = count_of(notes, "crashes") + (death == CrashMark::Death::crash ? 1 : 0);
  const int kills = count_of(notes, "kills") + (death == CrashMark::Death::kill ? 1 : 0);
  notes["crashes"] = crashes, notes["kills"] = kills;
  try {
    write_whole(notes_of(folder), json_text(notes, 1) + "\n");
  } catch (const Error&) {  // on a full disk nothing is counted
  }
  return crashes >= kMostCrashes || kills >= kMostKills;
}

}  // namespace tachy::workers
