// One connection: it reads a request, answers it and closes, or becomes the socket of a visit. Private to
// src/serve.
#pragma once

#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "http/net_types.h"
#include "http/take_over.h"
#include "serve/http_reply.h"
#include "serve/hub.h"

namespace tachy::serve {

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(Hub& hub, Socket socket);
  // Goes on with a connection whose header a server of src/http has read. `inner` is the path of the world's own
  // page: "/state" for /world/NAME/state, "" for /world/NAME.
  HttpConnection(Hub& hub, tachy::http::HandedOver handed, std::string_view inner);
  ~HttpConnection();
  void run();
  void answer();  // answers a request whose header has been read

 private:
  using error_code = boost::beast::error_code;
  void read_header();
  void on_header(error_code error);
  bool refused();  // answers 403 if Host, token or Origin is wrong
  void answer_get(std::string_view path);
  void answer_page(bool second_look);
  void answer_recording();
  void answer_upload();
  void on_body(error_code error);
  void become_socket();
  void send(TextReply reply);
  template <class Body>
  void write(std::shared_ptr<http::response<Body>> reply);
  void linger();  // waits until the other side has read the reply and closed
  void drain();

  void answer_html(http::status status, std::string_view file, std::string_view text = "");
  std::string_view target() const { return target_; }
  std::string_view header(http::field name) const;
  std::string_view token() const;

  Hub& hub_;
  const std::shared_ptr<int> connections_;  // the hub's
  TcpStream stream_;
  boost::beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::vector_body<uint8_t>>> parser_;
  size_t header_bytes_ = 0;  // how many of its header have been parsed
  std::string target_;
  bool known_ = true;  // the sender needs no ticket
  Timer timer_;
  char rest_[512];
};

}  // namespace tachy::serve
