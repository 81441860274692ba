// From a request to what is sent back: a handler's reply, or the reply to what went wrong, with its file
// opened and the range of it picked. It is made in a thread that may wait for a disk, and does not throw.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "base/os/file.h"
#include "http/message.h"
#include "http/router.h"
#include "http/server.h"

namespace tachy::http {

struct Answer {
  int status = 200;
  Pairs headers;
  std::string text;                      // the content, unless there is a file or a feed
  std::shared_ptr<const os::File> file;  // or null
  uint64_t from = 0, bytes = 0;          // of the file
  std::shared_ptr<EventFeed> feed;       // or null
};

// Returns what the route answers from memory, if it does. Most requests ask for a state that is in memory, and to hand
// them to another thread and back would cost more than to answer them.
std::optional<Answer> answer_at_once(const Route& route, Request& request, const ServerOptions& options);
Answer run_handler(const Route& route, Request& request, const ServerOptions& options);
// Replies to a status of the server's own, or to an exception.
Answer answer_error(int status, const std::exception* error, const Request& request,
                    const ServerOptions& options);
Answer answer_of(Reply reply, const Request& request, const ServerOptions& options);

}  // namespace tachy::http
