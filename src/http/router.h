// The table of a server's addresses: a method and a pattern ("/v1/videos/{id}/content"), and who answers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace tachy::http {

struct TakeOver;  // take_over.h, which needs Beast

// Answers a request. It is called in a thread of its lane and may block there; whatever it throws becomes the
// reply of ServerOptions::on_error.
using Handler = std::function<Reply(Request&)>;

// Handlers that only look something up must not wait for those that plan a video or write to a disk.
enum class Lane { quick, slow };

struct Route {
  std::string method, pattern;  // a {name} stands for one part of the path without a slash
  Handler handler;
  Lane lane = Lane::quick;
  bool open = false;  // answers without a key: health, readiness, the page's own files
  // Answers in the sockets' thread, from memory alone, or returns nothing: then the handler answers in its lane. It
  // must never wait, and what it throws is forgotten, since the handler will say it.
  std::function<std::optional<Reply>(Request&)> at_once = {};
  // Where this is set, the whole connection goes to it once the gate has let the request's header in; there
  // is no handler then, and the body is not read.
  std::shared_ptr<const TakeOver> take_over = {};
};

class Router {
 public:
  void add(Route route);
  struct Found {
    const Route* route = nullptr;            // null: no such path, or not with this method
    std::vector<std::string> captures;       // decoded
    std::vector<std::string> other_methods;  // those that the path has, if it lacks only the method
  };
  // `path` is the raw path of a request's target, without its query. A path with a part that does not decode
  // to UTF-8 text, or with "." or "..", is not found. Among patterns that fit, the one with the fewest
  // captures counts. HEAD is answered by the route of GET where it has none of its own.
  Found find(std::string_view method, std::string_view path) const;

 private:
  std::vector<std::shared_ptr<const Route>> routes_;  // a Route keeps its address
  std::vector<std::vector<std::string>> patterns_;    // their parts between the slashes
};

}  // namespace tachy::http
