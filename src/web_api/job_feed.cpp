#include "web_api/job_feed.h"

#include "base/error.h"

namespace tachy::web_api {
namespace {

constexpr size_t kMostText =
    64 << 10;  // bytes of a piece: a slow reader of many events is sent them one by one

bool is_last(const queue::Event& event) { return event.type == "done" || event.type == "failed"; }

}  // namespace

std::string event_text(const queue::Event& event) {
  return fmt::format("id: {}\nevent: {}\ndata: {}\n\n", event.number, event.type, event.data);
}

void JobFeed::look() const {
  if (!waiting_.empty() || last_) return;
  for (queue::Event& event : book_.since(job_, seen_)) {
    seen_ = event.number;
    waiting_.push_back(std::move(event));
  }
}

std::optional<std::string> JobFeed::next() {
  const std::lock_guard lock(mutex_);
  look();
  if (waiting_.empty()) return std::nullopt;
  std::string text;
  while (!waiting_.empty() && !last_ && text.size() < kMostText) {
    text += event_text(waiting_.front());
    last_ = is_last(waiting_.front());
    waiting_.pop_front();
  }
  return text;
}

bool JobFeed::ended() const {
  const std::lock_guard lock(mutex_);
  if (last_) return true;
  if (!waiting_.empty() || !book_.ended(job_)) return false;
  look();  // events may have come before the end and after the last look
  return waiting_.empty();
}

void JobFeed::on_news(std::function<void()> wake) {
  auto listening = book_.listen(job_, std::move(wake));
  const std::lock_guard lock(mutex_);
  listening_ = std::move(listening);
}

}  // namespace tachy::web_api
