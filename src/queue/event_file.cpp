#include "queue/event_file.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>

#include "base/json_text.h"
#include "base/os/lock.h"

namespace tachy::queue {
namespace {

constexpr int kLockTries = 500;
constexpr std::string_view kNumber = "{\"number\":", kType = ",\"type\":\"", kData = "\",\"data\":";

std::string line_of(const Event& event) {
  return fmt::format("{}{}{}{}{}{}}}\n", kNumber, event.number, kType, event.type, kData, event.data);
}

// Takes a line apart that line_of() has made. Late listeners read thousands of them, which a parser would
// make slow.
std::optional<Event> event_of(std::string_view line) {
  Event event;
  if (!line.starts_with(kNumber) || !line.ends_with("}}")) return std::nullopt;
  const auto [rest, error] =
      std::from_chars(line.data() + kNumber.size(), line.data() + line.size(), event.number);
  line.remove_prefix(static_cast<size_t>(rest - line.data()));
  const size_t data = line.find(kData);
  if (error != std::errc() || !line.starts_with(kType) || data == line.npos) return std::nullopt;
  event.type = line.substr(kType.size(), data - kType.size());
  line.remove_prefix(data + kData.size());
  event.data = line.substr(0, line.size() - 1);
  return event;
}

// Says whether a line is whole. A power cut may leave anything in it, also zeros, which a parser takes for
// its end.
bool is_whole(std::string_view line) {
  return line.find('\0') == line.npos && parsed_or_discarded(line).is_object();
}

std::string bytes_of(const std::filesystem::path& path, uint64_t from = 0) {
  std::ostringstream bytes;
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(from));
  if (file && file.peek() != EOF) bytes << file.rdbuf();
  return std::move(bytes).str();
}

}  // namespace

// Takes whole lines from the beginning of the text, which follows what was read before.
std::vector<Event> EventFile::events_in(const std::string& text) {
  std::vector<Event> events;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    std::optional<Event> event = event_of(line);
    if (!event || !is_whole(line) || event->number <= last_) break;
    last_ = event->number;
    events.push_back(std::move(*event));
  }
  whole_bytes_ += begin, torn_ = begin < text.size();
  return events;
}

std::vector<Event> EventFile::read() {
  whole_bytes_ = 0, last_ = 0;
  return events_in(bytes_of(path_));
}

std::vector<Event> EventFile::added() {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path_, error);
  if (error || bytes <= whole_bytes_) return {};
  return events_in(bytes_of(path_, whole_bytes_));
}

os::File EventFile::locked() const {
  if (!shared_) return {};
  std::error_code error;
  os::File lock = os::open_lock_file(path_.string() + ".lock", error);
  for (int tries = 0; !error && tries < kLockTries; ++tries) {
    if (os::try_lock(lock) != os::LockResult::taken) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return lock;
}

std::vector<Event> EventFile::after(int64_t number) const {
  const std::string text = bytes_of(path_).substr(0, whole_bytes_);
  std::vector<Event> events;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
    if (auto event = event_of(std::string_view(text).substr(begin, end - begin));
        event && event->number > number)
      events.push_back(std::move(*event));
  return events;
}

std::error_code EventFile::append(const Event& event) {
  std::error_code error;
  if (torn_) {  // by a kill, or by a disk that was full
    if (std::filesystem::exists(path_, error)) std::filesystem::resize_file(path_, whole_bytes_, error);
    if (error) return error;
  }
  const std::string line = line_of(event);
  torn_ = true;
  std::ofstream file(path_, std::ios::binary | std::ios::app);
  file << line;
  file.close();
  if (!file) return std::make_error_code(std::errc::io_error);
  torn_ = false, whole_bytes_ += line.size(), last_ = event.number;
  return {};
}

}  // namespace tachy::queue
