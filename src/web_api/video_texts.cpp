#include "web_api/video_texts.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.h"
#include "web_api/video_object.h"

namespace tachy::web_api {
namespace {

std::string begin_of(const queue::JobRow& row) {
  nlohmann::json video = video_object(row, {});
  const nlohmann::json changing = live_fields(row, {});
  for (const auto& [field, value] : changing.items()) video.erase(field);
  std::string text = json_line(video);
  text.back() = ',';
  return text;
}

}  // namespace

std::string VideoTexts::of(const std::shared_ptr<const queue::JobRow>& row, const workers::Live& live) {
  std::shared_ptr<const std::string> begin;
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = texts_.find(row->id); it != texts_.end() && it->second.row == row)
      begin = it->second.begin;
  }
  if (!begin) {
    begin = std::make_shared<const std::string>(begin_of(*row));
    put(row->id, {row, begin});
  }
  return *begin + json_line(live_fields(*row, live)).substr(1);
}

// A text keeps its row, whose own texts are about as long.
size_t VideoTexts::bytes_of(const Text& text) { return 2 * text.begin->size() + 500; }

void VideoTexts::put(const std::string& id, Text text) {
  const std::lock_guard lock(mutex_);
  const auto forget = [&](auto it) {
    bytes_ -= bytes_of(it->second);
    texts_.erase(it);
  };
  if (const auto it = texts_.find(id); it != texts_.end()) forget(it);
  while (!texts_.empty() && bytes_ + bytes_of(text) > kMostBytes) forget(texts_.begin());
  bytes_ += bytes_of(text);
  texts_.emplace(id, std::move(text));
}

}  // namespace tachy::web_api
