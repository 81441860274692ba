// The event stream of a job that another host has, as that host sends it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace tachy::web_api {

// The other end of a stream, for the thread that fills it.
struct FarSink {
  std::function<bool(std::string_view text)> take;  // false: nobody reads it any more
  const std::atomic<bool>& cancel;                  // the reader has gone, or the server goes down
};

// Begins a stream that is filled in a thread of its own, and handed on by whole events as it comes. It ends when `fill`
// returns or throws: its reader asks again after the last event that it has seen, as it would with one server. Throws
// ApiError not_available while too many such streams are open.
std::shared_ptr<http::EventFeed> far_events(std::function<void(const FarSink& sink)> fill);

// This keeps track of how much of a job's events a reader has been sent, by whichever hosts.
struct Told {
  std::string files;   // the folder whose events they were, each of which counts its own; "": not known
  int64_t number = 0;  // of the last event
  bool over = false;   // that was `done` or `failed`
  void note(std::string_view events);
};

// Hands on whole events of another host after the number `told`, as long as its stream lasts. It ends when nothing has come
// for three times the pause that a host makes. Returns false if nobody reads any more.
bool read_far_events(const std::string& url, std::vector<std::string> headers, const FarSink& sink,
                     Told& told);

// Ends all streams, and waits for their threads, for two seconds at most.
void end_far_events();

}  // namespace tachy::web_api
