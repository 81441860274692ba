// A route that takes the whole connection: what speaks something else than a request and its reply, such as a
// WebSocket. It is apart from router.h because it needs Beast.
#pragma once

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <functional>
#include <memory>

#include "http/message.h"
#include "http/net_types.h"

namespace tachy::http {

struct HandedOver {
  Socket socket;
  // It has read the header: parser->get() is the request. To read a body, make a parser of another body from
  // it: request_parser<vector_body<uint8_t>> whole(std::move(*parser)).
  std::unique_ptr<boost::beast::http::request_parser<boost::beast::http::buffer_body>> parser;
  boost::beast::flat_buffer rest;  // bytes behind the header that have been read already
  Request request;                 // the same as a handler would see it, without a body
};

struct TakeOver {
  // It is called in the sockets' thread and must not wait. The connection no longer counts among the
  // server's, but its socket must be gone before the server is.
  std::function<void(HandedOver)> begin;
};

}  // namespace tachy::http
