// The HTTP interface of a server: /v1/videos and what belongs to it.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "http/router.h"
#include "http/server.h"
#include "queue/event_book.h"
#include "queue/job_table.h"
#include "web_api/job_request.h"
#include "web_api/video_texts.h"
#include "workers/foreman.h"

namespace tachy::web_api {

class Tickets;  // links.h

// Everything that the interface works with. All of it outlives the server.
struct Service {
  queue::JobTable& table;
  queue::EventBook& book;
  workers::Runs& foreman;
  Offers offers;
  std::filesystem::path files;  // the server's folder
  int64_t most_queued = 1000;
  int64_t most_queued_of_key = 0;          // 0: no limit of its own
  double most_pixel_frames = 0;            // pixels x frames of one job; 0: what memory allows
  bool keys = false;                       // whether callers need a key
  std::vector<http::Caller> holders = {};  // of the keys
  bool loopback = true;                    // whether the server listens on this machine alone
  std::string link_secret;                 // signs links to a video
  Tickets* tickets = nullptr;              // for sockets of worlds, where there are keys
  std::atomic<bool>* ending = nullptr;     // no new jobs: the server is going down
  // Makes the message about the end of a job that fails while it waits; the same as ForemanOptions::message.
  std::function<std::optional<queue::Webhook>(const queue::JobRow&)> message = {};
  std::shared_ptr<VideoTexts> texts = std::make_shared<VideoTexts>();
  std::function<std::string()> metrics = {};  // the text of /metrics; without it there is no such address
};

// Brings the folder of jobs and the table together, before anybody is served and any job is run: what a crash has
// left between the two is removed.
void tidy(Service& service);

// Adds the routes of /v1, /health, /ready, /metrics and /openapi.json.
void add_routes(http::Router& router, Service& service);

}  // namespace tachy::web_api
