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

// Hands on the stream of another host as long as it lasts. Throws io.
void read_far_events(const std::string& url, const std::vector<std::string>& headers, const FarSink& sink);

// Ends all streams, and waits for their threads, for two seconds at most.
void end_far_events();

}  // namespace tachy::web_api
