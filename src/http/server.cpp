#include "http/server.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/error.h"
#include "base/field.h"
#include "base/log.h"
#include "base/os/process.h"
#include "http/connection.h"
#include "http/core.h"

namespace tachy::http {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::milliseconds kLook{50};  // between two checks of the flag that a signal handler sets
constexpr std::chrono::milliseconds kFarewell{800};  // for the replies under way when the server ends
constexpr size_t kOtherFiles = 128;  // descriptors that are left for files, databases and libraries

ServerOptions checked(ServerOptions o) {
  const bool name = !o.host.empty() && o.host.size() <= 255 &&
                    std::all_of(o.host.begin(), o.host.end(), [](unsigned char c) {
                      return std::isalnum(c) || c == '.' || c == '-' || c == '_' || c == ':' || c == '%';
                    });
  require(name, "`host`: expected an address or a name, got '{}'", o.host);
  check_range("port", o.port, Range{.least = 0, .most = 65535, .zero = "any"});
  require(!o.spool.empty(), "`spool`: expected a folder for uploads");
  const size_t files = os::allow_open_files(static_cast<size_t>(o.limits.connections) + kOtherFiles);
  const size_t room = files > 2 * kOtherFiles ? files - kOtherFiles : files / 2;
  o.limits.connections = static_cast<int>(std::min(static_cast<size_t>(o.limits.connections), room));
  return o;
}

}  // namespace

struct Server::State {
  State(Router router, ServerOptions options)
      : core(std::move(router), checked(std::move(options))),
        acceptor(core.io),
        pause(core.io),
        look(core.io),
        farewell(core.io) {
    listen();
  }

  void listen() {
    using asio::ip::tcp;
    boost::system::error_code error;
    tcp::resolver resolver(core.io);
    const auto found = resolver.resolve(core.options.host, std::to_string(core.options.port),
                                        tcp::resolver::passive | tcp::resolver::numeric_service, error);
    require(!error && !found.empty(), "`host`: {}: {}", core.options.host, error.message());
    const tcp::endpoint at = found.begin()->endpoint();
    acceptor.open(at.protocol(), error);
    if (!error) acceptor.set_option(Acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(at, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    check(!error, ErrorCode::io, "cannot listen on {}, `port` {}: {}{}", core.options.host, core.options.port,
          error.message(),
          error == asio::error::address_in_use ? "; choose another port, or 0 for any that is free" : "");
  }

  void accept() {
    acceptor.async_accept([this](boost::system::error_code error, Socket socket) {
      if (error == asio::error::operation_aborted || core.stopping) return;
      if (!error) {
        accept();  // called first, so that an error in this connection does not end accepting
        const auto most = static_cast<size_t>(core.options.limits.connections);
        if (core.connections.size() >= most) make_room();
        if (core.connections.size() < most) std::make_shared<Connection>(core, std::move(socket))->run();
        return;
      }
      // The process may be out of descriptors: do not try again at once.
      make_room();
      pause.expires_after(kLook);
      pause.async_wait([this](boost::system::error_code aborted) {
        if (!aborted && !core.stopping) accept();
      });
    });
  }

  // Closes the connection that has waited longest for a request, so that nobody keeps others out by waiting.
  void make_room() {
    if (core.idle.empty()) return;
    const auto longest = core.idle.front()->shared_from_this();
    longest->close();
    core.connections.erase(longest.get());  // its own end comes only when its timer has heard of this
  }

  void watch(const std::atomic<bool>* cancel) {
    look.expires_after(kLook);
    look.async_wait([this, cancel](boost::system::error_code error) {
      if (error || core.stopping) return;
      if (*cancel) return end();
      watch(cancel);
    });
  }

  void end() {
    if (std::exchange(core.stopping, true)) return;
    boost::system::error_code ignored;
    acceptor.close(ignored);
    pause.cancel(), look.cancel();
    std::vector<std::shared_ptr<Connection>> open;
    for (Connection* connection : core.connections) open.push_back(connection->shared_from_this());
    for (const auto& connection : open) connection->wind_down();
    open.clear();
    farewell_until = std::chrono::steady_clock::now() + kFarewell;
    wait_for_the_last();
  }

  void wait_for_the_last() {
    if (core.connections.empty() || std::chrono::steady_clock::now() >= farewell_until) return core.io.stop();
    farewell.expires_after(std::chrono::milliseconds(10));
    farewell.async_wait([this](boost::system::error_code) { wait_for_the_last(); });
  }

  Core core;
  Acceptor acceptor;
  Timer pause, look, farewell;
  std::chrono::steady_clock::time_point farewell_until;
};

Server::Server(Router router, ServerOptions options)
    : state_(std::make_unique<State>(std::move(router), std::move(options))) {}
Server::~Server() = default;

int Server::port() const { return state_->acceptor.local_endpoint().port(); }

std::string Server::url() const {
  const std::string& host = state_->core.options.host;
  const std::string name = host.find(':') == host.npos ? host : "[" + host + "]";
  return fmt::format("http://{}:{}/", name, port());
}

void Server::run(const std::atomic<bool>* cancel) {
  state_->accept();
  if (cancel) state_->watch(cancel);
  for (;;) try {
      state_->core.io.run();
      return;
    } catch (const std::exception& e) {
      warn("http: {}", e.what());  // the error is from one connection, which is dropped; the others go on
    }
}

void Server::stop() {
  state_->core.door->post([state = state_.get()] { state->end(); });
}

}  // namespace tachy::http
