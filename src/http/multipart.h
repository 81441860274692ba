// A reader of multipart/form-data (RFC 7578): bytes are pushed in as they come, in pieces of any size, and
// parts come out. Nothing but the header of a part and the end of a piece is held in memory.
//
//   --BOUNDARY CRLF  header lines CRLF  CRLF  content CRLF  --BOUNDARY …  --BOUNDARY--
//
// A boundary that is followed by anything but the end of its line is malformed, not content: RFC 2046 lets no
// line of content begin with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace tachy::http {

// A body that is well formed so far, and larger than a limit: the reply is 413.
class TooLarge : public Error {
 public:
  explicit TooLarge(std::string message) : Error(ErrorCode::invalid_argument, std::move(message)) {}
};

struct PartHead {
  std::string name;
  bool is_file = false;  // it has a filename, if only an empty one
  std::string filename;  // as the sender gave it
  std::string type;      // Content-Type, or ""
};

// Takes what the reader finds. An exception that it throws comes out of push().
class PartSink {
 public:
  virtual ~PartSink() = default;
  virtual void begin(const PartHead& head) = 0;
  virtual void content(std::string_view bytes) = 0;
  virtual void end() = 0;
};

struct MultipartLimits {
  size_t parts = 1000;
  size_t name_bytes = 256;               // of a part's name, and of a file's name
  size_t header_bytes = 4 << 10;         // of a part's header, and of what stands before the first boundary
  size_t text_bytes = 4 << 20;           // of all parts that are no files, together
  uint64_t bytes = uint64_t{512} << 20;  // of the whole body
};

class MultipartReader {
 public:
  // Throws invalid_argument for a boundary that RFC 2046 does not allow.
  MultipartReader(std::string_view boundary, const MultipartLimits& limits, PartSink& sink);

  // Throws invalid_argument for a malformed body, with the offset at which it is so, and TooLarge. After that
  // the reader must not be used any more.
  void push(std::string_view bytes);
  void finish();  // the body has ended; throws invalid_argument if its last boundary has not come

 private:
  enum class State { preamble, boundary, header, content, epilogue };

  bool step();  // returns false when it needs more bytes
  bool read_preamble();
  bool read_boundary_line();
  bool read_header();
  bool read_content();
  void begin_part(std::string_view header);
  void give(std::string_view content);
  std::string_view rest() const { return std::string_view(held_).substr(at_); }
  [[noreturn]] void malformed(std::string_view what) const;

  const std::string delimiter_;  // CRLF, two dashes and the boundary
  const MultipartLimits limits_;
  PartSink& sink_;
  State state_ = State::preamble;
  std::string held_ = "\r\n";  // bytes that are not understood yet; a boundary may be the body's first line
  size_t at_ = 0;              // how many of them are understood by now
  int64_t offset_ = -2;        // of held_ in the body
  uint64_t bytes_ = 0;         // of the body so far
  size_t parts_ = 0, text_bytes_ = 0, preamble_ = 0;
  bool file_ = false;  // the part that is being read is one
};

}  // namespace tachy::http
