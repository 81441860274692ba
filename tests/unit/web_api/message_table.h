// A table that has messages and nothing else, for tests of webhooks.
#pragma once

#include <atomic>
#include <map>
#include <mutex>

#include "base/error.h"
#include "queue/job_table.h"
#include "workers/wall_clock.h"

namespace tachy::web_api {

class MessageTable : public queue::JobTable {
 public:
  std::atomic<int64_t> ahead_ms{0};  // of its clock before that of this machine

  void add(queue::Webhook message) {
    const std::lock_guard lock(mutex_);
    messages_[message.id] = std::move(message);
  }
  size_t left() const {
    const std::lock_guard lock(mutex_);
    return messages_.size();
  }

  std::vector<queue::Webhook> due_webhooks(int64_t now_ms, int limit) override {
    const std::lock_guard lock(mutex_);
    std::vector<queue::Webhook> due;
    for (const auto& [id, message] : messages_)
      if (message.due_ms <= now_ms && due.size() < static_cast<size_t>(limit)) due.push_back(message);
    return due;
  }
  void webhook_sent(const std::string& id) override {
    const std::lock_guard lock(mutex_);
    messages_.erase(id);
  }
  void webhook_later(const std::string& id, int64_t due_ms) override {
    const std::lock_guard lock(mutex_);
    messages_.at(id).due_ms = due_ms, ++messages_.at(id).attempts;
  }

  int64_t now_ms() const override { return workers::wall_clock_ms() + ahead_ms; }
  std::optional<std::vector<queue::HeldJob>> heartbeat(const std::string&) override {
    return none<std::vector<queue::HeldJob>>();
  }
  using Rows = std::vector<queue::JobRow>;
  using Row = std::optional<queue::JobRow>;
  queue::Inserted insert(const queue::JobRow&, const std::string&, const std::string&, int64_t,
                         int64_t) override {
    return none<queue::Inserted>();
  }
  Row find(const std::string&) override { return none<Row>(); }
  queue::Page list(const std::string*, const std::string&, int, bool) override { return none<queue::Page>(); }
  queue::Page active(const std::string*, int) override { return none<queue::Page>(); }
  std::vector<queue::WaitingJob> waiting() override { return none<std::vector<queue::WaitingJob>>(); }
  queue::Counts counts() override { return none<queue::Counts>(); }
  Row claim(const std::string&, const std::string&) override { return none<Row>(); }
  bool give_back(const std::string&, const std::string&, bool) override { return none<bool>(); }
  void progress(const std::string&, const std::string&, int) override { none<int>(); }
  bool end(const queue::JobRow&, const std::string&, const std::optional<queue::Webhook>&) override {
    return none<bool>();
  }
  Row wish(const std::string&, queue::Wish, const std::optional<queue::Webhook>&) override {
    return none<Row>();
  }
  Row set_paused(const std::string&, bool) override { return none<Row>(); }
  Row change(const std::string&, const queue::Change&) override { return none<Row>(); }
  bool remove(const std::string&) override { return none<bool>(); }
  Row fail_queued(const std::string&, const queue::JobError&, const std::optional<queue::Webhook>&) override {
    return none<Row>();
  }
  Rows recover(const std::string&) override { return none<Rows>(); }
  std::vector<std::string> outdated(int64_t, uint64_t) override { return none<std::vector<std::string>>(); }
  std::vector<queue::Preset> presets(const std::string&) override {
    return none<std::vector<queue::Preset>>();
  }
  void save_preset(const queue::Preset&, int64_t) override { none<int>(); }
  bool remove_preset(const std::string&, const std::string&) override { return none<bool>(); }

 private:
  template <class T>
  static T none() {
    fail(ErrorCode::unsupported, "this table has messages alone");
  }

  mutable std::mutex mutex_;
  std::map<std::string, queue::Webhook> messages_;
};

}  // namespace tachy::web_api
