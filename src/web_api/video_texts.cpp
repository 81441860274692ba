#include "web_api/video_texts.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.h"
#include "web_api/video_object.h"

namespace tachy::web_api {
namespace {

std::string begin_of(const queue::JobRow& row) {
  nlohmann::json video = video_object(row, {});
  for (const auto& [field, value] : live_fields(row, {}).items()) video.erase(field);
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
    const std::lock_guard lock(mutex_);
    if (texts_.size() >= kMost) texts_.erase(texts_.begin());
    texts_.insert_or_assign(row->id, Text{row, begin});
  }
  return *begin + json_line(live_fields(*row, live)).substr(1);
}

}  // namespace tachy::web_api
