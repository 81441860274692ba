// A server's interface without its sockets and without anybody who computes: a real table and a real book of
// events in a folder of their own, the shipped model for what is asked of one, and a pretended Foreman.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/notice.h"
#include "http/router.h"
#include "queue/event_book.h"
#include "queue/job_folder.h"
#include "queue/sqlite_table.h"
#include "temporary_folder.h"
#include "web_api/service.h"

namespace tachy::web_api {

class FakeRuns : public workers::Runs {
 public:
  workers::Outlook answer{.gpu_bytes = 0, .host_bytes = 1000, .seconds = 40, .seconds_to_preview = 2};
  std::string refusal;  // what outlook() throws; "": nothing
  std::string warning;  // what outlook() warns of
  workers::Live now;
  bool busy = false;  // live_now() has no answer
  bool open = true;
  std::vector<std::string> stopped;
  std::atomic<int> wakes = 0, outlooks = 0;
  std::function<void(const std::string&)> on_stop = [](const std::string&) {};
  std::function<void()> on_wake = [] {}, on_outlook = [] {};

  std::mutex mutex;
  std::string owner;  // whose job the last outlook() was of

  workers::Outlook outlook(const jobs::JobSpec&, const std::string&, int, const std::string& of,
                           const std::string&) override {
    ++outlooks;
    {
      const std::lock_guard lock(mutex);
      owner = of;
    }
    on_outlook();
    if (!warning.empty()) say_line(warning);
    require(refusal.empty(), "{}", refusal);
    return answer;
  }
  bool ready(std::string* why) const override {
    if (why && !open) *why = "the model is being opened";
    return open;
  }
  void wake() override { ++wakes, on_wake(); }
  void remember(const std::string&, std::shared_ptr<const PreparedRequest>) override {}
  void stop_job(const std::string& id) override { stopped.push_back(id), on_stop(id); }
  workers::Live live(const queue::JobRow&) const override { return now; }
  std::optional<workers::Live> live_now(const queue::JobRow&) const override {
    return busy ? std::nullopt : std::optional(now);
  }
};

// The answer that came back, with a body of JSON parsed.
struct Answer {
  int status = 0;
  nlohmann::json body;
  http::Reply reply;
  std::string header(const std::string& name) const;
  std::string code() const { return body.at("error").at("code"); }
  std::string param() const {
    return body.at("error").at("param").is_null() ? "" : body.at("error").at("param");
  }
  std::string message() const { return body.at("error").at("message"); }
};

class ApiTest : public InTemporaryFolder {
 protected:
  void SetUp() override;

  // "GET", "/v1/videos?limit=3"; the body is JSON unless it is null.
  Answer call(const std::string& method, const std::string& target, const nlohmann::json& body = nullptr,
              const http::Pairs& headers = {}, const http::Caller& caller = {.priority = true});
  Answer send(http::Request request);  // for bodies of another kind
  Answer create(const nlohmann::json& more = nlohmann::json::object(), const http::Pairs& headers = {},
                const http::Caller& caller = {.priority = true});
  std::string created(const nlohmann::json& more = nlohmann::json::object(),
                      const http::Caller& caller = {.priority = true});  // the id
  void begin(const std::string& id);                                     // a worker takes the job
  void complete(const std::string& id, nlohmann::json facts = nlohmann::json::object());
  void fail_job(const std::string& id, const std::string& code);
  queue::JobFolder folder_of(const std::string& id) const { return {service->files, id}; }
  // Returns what is answered from memory alone, if anything is.
  std::optional<http::Reply> at_once(const std::string& target, const http::Caller& caller = {});
  size_t folders() const;  // how many there are under FILES/jobs, under whichever names
  // A part of a multipart body that is a file with these bytes.
  http::Part file_part(const std::string& name, const std::string& filename, const std::string& bytes) const;

  std::unique_ptr<queue::SqliteTable> table;
  std::unique_ptr<queue::EventBook> book;
  std::unique_ptr<workers::Models> models;
  FakeRuns runs;
  std::atomic<bool> ending{false};
  std::unique_ptr<Service> service;
  http::Router router;
};

}  // namespace tachy::web_api
