#include "serve/page_server.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/error.h"
#include "base/field.h"
#include "base/log.h"
#include "http/net_types.h"
#include "serve/http_connection.h"
#include "serve/socket_session.h"

namespace tachy::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::milliseconds kLook{50};  // between two checks of the flag that a signal handler sets

PageOptions checked(PageOptions o) {
  check_options(o);
  if (o.token.empty() && !is_loopback(o.host)) o.token = random_token();
  return o;
}

}  // namespace

void check_options(const PageOptions& o) {
  const bool name = !o.host.empty() && o.host.size() <= 255 &&
                    std::all_of(o.host.begin(), o.host.end(), [](unsigned char c) {
                      return std::isalnum(c) || c == '.' || c == '-' || c == '_' || c == ':' || c == '%';
                    });
  require(name, "`host`: expected an address or a name, got '{}'", o.host);
  check_range("port", o.port, Range{.least = 0, .most = 65535, .zero = "any"});
  Access(o.host, o.token);
}

struct PageServer::State {
  State(SteeredWorld& world, PageOptions o)
      : options(checked(std::move(o))), hub(io.get_executor(), options.play), acceptor(io), look(io) {
    hub.access.emplace(options.host, options.token);
    hub.world = &world;
    hub.player = std::make_unique<WorldPlayer>(world, options.play, *hub.shelf);
    listen();
  }
  ~State() { hub.visitor = nullptr; }

  void listen() {
    error_code error;
    tcp::resolver resolver(io);
    const auto found = resolver.resolve(options.host, std::to_string(options.port),
                                        tcp::resolver::passive | tcp::resolver::numeric_service, error);
    require(!error && !found.empty(), "`host`: {}: {}", options.host, error.message());
    const tcp::endpoint at = found.begin()->endpoint();
    acceptor.open(at.protocol(), error);
    if (!error) acceptor.set_option(Acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(at, error);
    if (!error) acceptor.listen(16, error);
    check(!error, ErrorCode::io, "cannot listen on {}, `port` {}: {}{}", options.host, options.port,
          error.message(),
          error == asio::error::address_in_use ? "; choose another port, or 0 for any that is free" : "");
  }

  void accept() {
    acceptor.async_accept([this](error_code error, Socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (!error) {
        accept();  // called first, so that an error in this connection does not end accepting
        if (*hub.connections < hub.limits().connections)
          std::make_shared<HttpConnection>(hub, std::move(socket))->run();
        return;
      }
      // The process may be out of descriptors: do not try again at once.
      pause.expires_after(kLook);
      pause.async_wait([this](error_code aborted) {
        if (!aborted) accept();
      });
    });
  }

  void watch(const std::atomic<bool>* cancel) {
    look.expires_after(kLook);
    look.async_wait([this, cancel](error_code error) {
      if (error) return;
      if (cancel && *cancel) return io.stop();
      watch(cancel);
    });
  }

  const PageOptions options;
  asio::io_context io{1};
  Hub hub;
  Acceptor acceptor;
  Timer look, pause{io};
};

PageServer::PageServer(SteeredWorld& world, const PageOptions& options)
    : state_(std::make_unique<State>(world, options)) {}
PageServer::~PageServer() = default;

int PageServer::port() const { return state_->acceptor.local_endpoint().port(); }

std::string PageServer::url() const {
  const std::string& host = state_->options.host;
  const std::string name = host.find(':') == host.npos ? host : "[" + host + "]";
  const std::string& token = state_->hub.access->token();
  return fmt::format("http://{}:{}/{}{}", name, port(), token.empty() ? "" : "?token=", token);
}

void PageServer::run(const std::atomic<bool>* cancel) {
  state_->accept();
  if (cancel) state_->watch(cancel);
  for (;;) try {
      state_->io.run();
      return;
    } catch (const std::exception& e) {
      warn("page: {}", e.what());  // the error is from one connection, which is dropped; the others go on
    }
}

void PageServer::stop() { state_->io.stop(); }

}  // namespace tachy::serve
