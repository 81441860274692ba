// The events of one job as a stream of text/event-stream, from the book to a connection.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "http/message.h"
#include "queue/event_book.h"

namespace tachy::web_api {

class JobFeed : public http::EventFeed {
 public:
  // Gives the events after the one with the number `seen`, and ends after `done` or `failed`, or when the job is
  // removed. The book outlives the feed.
  JobFeed(queue::EventBook& book, std::string job, int64_t seen)
      : book_(book), job_(std::move(job)), seen_(seen) {}

  std::optional<std::string> next() override;
  bool ended() const override;
  void on_news(std::function<void()> wake) override;

 private:
  void look() const;  // for new events, if all known ones have been handed out

  queue::EventBook& book_;
  const std::string job_;
  mutable std::mutex mutex_;
  mutable std::deque<queue::Event> waiting_;
  mutable int64_t seen_;  // the last event that was taken from the book
  bool last_ = false;     // `done` or `failed` was handed out
  std::shared_ptr<void> listening_;
};

// One event as the stream has it: "id: 3\nevent: progress\ndata: {…}\n\n".
std::string event_text(const queue::Event& event);

}  // namespace tachy::web_api
