// An HTTP/1.1 server: it listens, reads requests within limits, asks the gate, lets the route's handler
// answer, and writes the reply. One thread has all sockets; handlers run in threads of their lanes.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"
#include "http/router.h"

namespace tachy::http {

// Every size, number and time that a caller controls is bounded here.
struct Limits {
  size_t header_bytes = 16 << 10;
  size_t text_bytes = 4 << 20;  // of a JSON body, and of all texts of a multipart body together
  uint64_t upload_bytes = uint64_t{512} << 20;  // of a whole body
  size_t parts = 1000;
  // For a further one, the one whose request was waited for longest is closed; itself, if each has a request.
  int connections = 2048;
  size_t quick_waiting = 1024, slow_waiting = 64;  // requests that wait for a thread; for further ones: 503
  std::chrono::milliseconds header{10'000};        // until a request's header is complete
  std::chrono::milliseconds idle{75'000};          // between two requests of a connection
  std::chrono::milliseconds stalled{30'000};       // while a body does not come, or a reply is not taken
  std::chrono::milliseconds alive{15'000};         // between two comments that keep a quiet event stream open
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8190;  // 0: a free one
  std::filesystem::path
      spool;  // a folder for the files of bodies, of this server alone; emptied at the start
  Limits limits;
  int quick_threads = 2, slow_threads = 2;
  // Looks at a request's header before its body is read, and fills in Request::caller. A reply means that the
  // request is refused. Called in the sockets' thread: it must not wait. `route` is null for an unknown path.
  std::function<std::optional<Reply>(Request& request, const Route* route)> gate;
  // Turns an exception of a handler or of reading a body (`status` is then 500, or 400 if the sender is
  // wrong, or 413 with a TooLarge of multipart.h), or a status of the server's own (400, 404, 405, 408, 415, 416,
  // 431, 503; `error` is then null) into a reply. It is called in any thread and must not wait. The server adds Allow to 405 and
  // Retry-After to 503.
  std::function<Reply(int status, const std::exception* error, const Request& request)> on_error;
  // Is told of every answer, for metrics: the route's pattern or "", and the status. Called in the sockets'
  // thread.
  std::function<void(std::string_view pattern, std::string_view method, int status)> answered;
};

class Server {
 public:
  // Listens at once. Throws invalid_argument and io.
  Server(Router router, ServerOptions options);
  ~Server();

  int port() const;
  std::string url() const;  // "http://127.0.0.1:8190/"
  // Serves until `cancel` is true or stop() was called; open connections are then closed within a second. A
  // handler that is at work then is waited for by the destructor alone.
  void run(const std::atomic<bool>* cancel);
  void stop();  // from any thread

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tachy::http
