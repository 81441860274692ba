#include "queue/event_file.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/json_text.h"

namespace tachy::queue {
namespace {

std::optional<Event> event_of(std::string_view line) {
  if (line.find('\0') != line.npos)
    return std::nullopt;  // a power cut leaves zeros, which a parser may take for an end
  const nlohmann::json value = parsed_or_discarded(line);
  if (!value.is_object()) return std::nullopt;
  const auto number = value.find("number"), type = value.find("type"), data = value.find("data");
  if (number == value.end() || type == value.end() || data == value.end()) return std::nullopt;
  if (!number->is_number_integer() || !type->is_string() || !data->is_object()) return std::nullopt;
  return Event{number->get<int64_t>(), type->get<std::string>(), json_line(*data)};
}

}  // namespace

std::vector<Event> EventFile::read() {
  std::ostringstream bytes;
  if (std::ifstream file(path_, std::ios::binary); file && file.peek() != EOF) bytes << file.rdbuf();
  const std::string text = std::move(bytes).str();
  std::vector<Event> events;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
    std::optional<Event> event = event_of(std::string_view(text).substr(begin, end - begin));
    if (!event || (!events.empty() && event->number <= events.back().number)) break;
    events.push_back(std::move(*event));
  }
  whole_bytes_ = begin, torn_ = begin < text.size();
  return events;
}

std::error_code EventFile::append(const Event& event) {
  std::error_code error;
  if (torn_) {  // by a kill, or by a disk that was full
    if (std::filesystem::exists(path_, error)) std::filesystem::resize_file(path_, whole_bytes_, error);
    if (error) return error;
  }
  const std::string line =
      fmt::format("{{\"number\":{},\"type\":\"{}\",\"data\":{}}}\n", event.number, event.type, event.data);
  torn_ = true;
  std::ofstream file(path_, std::ios::binary | std::ios::app);
  file << line;
  file.close();
  if (!file) return std::make_error_code(std::errc::io_error);
  torn_ = false, whole_bytes_ += line.size();
  return {};
}

}  // namespace tachy::queue
