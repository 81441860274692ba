// A request as its handler sees it, and the reply that the handler gives back. Neither knows of sockets: the
// connection (connection.h) reads the one and writes the other.
//
// A body is JSON or other text, which is held in memory up to Limits::text_bytes, or multipart/form-data,
// whose files are spooled to disk while they arrive and are never held in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tachy::http {

// A file that somebody sent. It lies under a name of ours in the spool folder and is removed with this
// object, unless keep() has moved it.
class SpooledFile {
 public:
  SpooledFile(std::filesystem::path path, std::string filename, std::string type)
      : path_(std::move(path)), filename_(std::move(filename)), type_(std::move(type)) {}
  ~SpooledFile();
  SpooledFile(const SpooledFile&) = delete;
  SpooledFile& operator=(const SpooledFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const std::string& filename() const { return filename_; }  // as the sender gave it; never use it as a path
  const std::string& type() const { return type_; }          // the sender's word for what it is, or ""
  uint64_t bytes = 0;
  std::string sha256;  // of its content
  // Moves the file to this name on the same file system, synced; path() is then the new one. Throws io.
  void keep(const std::filesystem::path& to);

 private:
  std::filesystem::path path_;
  std::string filename_, type_;
  bool kept_ = false;
};

// A part of a multipart body, in the order in which it came: a text or a file.
struct Part {
  std::string name;  // "prompt", "loras[][name]"
  std::string text;  // empty for a file
  std::shared_ptr<SpooledFile> file;
};

// The sender of a request: the holder of a key, or anybody where the server has no keys.
struct Caller {
  std::string key;        // the key's name; "": the server has no keys
  bool priority = false;  // whether this caller may give priorities
  bool admin = false;     // whether this caller may see and change what belongs to others
};

using Pairs = std::vector<std::pair<std::string, std::string>>;

bool equal_names(std::string_view a, std::string_view b);  // whatever the capital letters of ASCII

struct Request {
  std::string method;                 // "GET"
  std::string path;                   // decoded, without the query: "/v1/videos/video_12"
  std::vector<std::string> captures;  // what stood for the {…} of the route, decoded
  Pairs query;                        // decoded, in order
  Pairs headers;
  enum class Body { none, text, multipart } body_kind = Body::none;
  std::string body;         // for Body::text
  std::vector<Part> parts;  // for Body::multipart
  std::string peer;         // the address of the other side
  bool loopback = false;    // whether that is this machine
  Caller caller;
  bool of_host = false;  // whether the gate knows it as one that another host has passed on

  std::string_view header(std::string_view name) const;   // whatever its capital letters; "" if there is none
  const std::string* asked(std::string_view name) const;  // the first value in the query, or null
};

// A file to send. The server answers Range, If-Range and If-None-Match by itself, and takes the file's size
// and content as they are when it opens the file.
struct FileBody {
  std::filesystem::path path;
  std::string etag;  // with its quotes
};

// The source that a connection reads an open event stream from. Its functions may be called from any thread. The
// connection calls them in the sockets' thread, so they must not wait; it calls next() only when what it got
// before has been taken.
class EventFeed {
 public:
  virtual ~EventFeed() = default;
  // Returns the next text to send, whole events as the stream's format has them, or nothing for now.
  virtual std::optional<std::string> next() = 0;
  virtual bool ended() const = 0;  // there will be no more, and next() has given all
  // `wake` is called, in any thread, whenever next() may have something or the end has come.
  virtual void on_news(std::function<void()> wake) = 0;
};

struct Reply {
  int status = 200;
  Pairs headers;  // Content-Type among them
  std::variant<std::string, FileBody, std::shared_ptr<EventFeed>> body;
};

Reply json_reply(int status, std::string json);
Reply text_reply(int status, std::string text);

}  // namespace tachy::http
