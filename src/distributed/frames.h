// The frames that ranks send to one another: 16 bytes (a word of ours, a kind, a length), then the content.
// Each side knows what comes next and from whom, so a frame of another kind or length is an error, and no
// length that a frame claims is believed before its bytes are there. Both classes move as much as the system
// takes or has at the moment.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/os/sockets.h"

namespace tachy::distributed {

inline constexpr size_t kHeaderBytes = 16;
inline constexpr uint64_t kMostReasonBytes = 4096;  // of a last frame
enum class FrameKind : uint32_t { tensor = 1, word = 2, text = 3, last = 4 };
struct FrameHeader {
  FrameKind kind = FrameKind::tensor;
  uint64_t bytes = 0;
};
std::string header_bytes(const FrameHeader& header);
// Returns nothing for bytes that are no header.
std::optional<FrameHeader> read_header(std::string_view bytes);

// The content of a rank's last frame: why it ends.
std::string reason_bytes(const Error& reason);
// `name` is the rank that sent it. What a rank has passed on names the one where it began.
Error error_in(std::string_view content, const std::string& name);

struct Outgoing {
  int to = 0;
  FrameKind kind = FrameKind::tensor;
  std::span<const uint8_t> bytes;
};
struct Incoming {
  int from = 0;
  FrameKind kind = FrameKind::tensor;
  std::span<uint8_t> bytes;     // has exactly these bytes, or:
  std::string* text = nullptr;  // any number
};

inline std::span<const uint8_t> bytes_in(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// A frame on its way out.
class Sending {
 public:
  explicit Sending(const Outgoing& frame)
      : to_(frame.to), header_(header_bytes({frame.kind, frame.bytes.size()})), content_(frame.bytes) {}
  int to() const { return to_; }
  bool finished() const { return done_ == header_.size() + content_.size(); }
  bool begun() const { return done_ > 0 && !finished(); }
  void give_up() { done_ = header_.size() + content_.size(); }
  void step(const os::Socket& socket, std::error_code& error);

 private:
  int to_;
  std::string header_;
  std::span<const uint8_t> content_;
  size_t done_ = 0;
};

// A frame on its way in, which may turn out to be a last one.
class Receiving {
 public:
  explicit Receiving(const Incoming& wanted) : wanted_(wanted) {}
  int from() const { return wanted_.from; }
  bool last() const { return header_ && header_->kind == FrameKind::last; }
  bool finished() const { return header_ && done_ == header_->bytes; }
  const std::string& reason() const { return reason_; }  // the content of a last frame
  // The bytes until the next frame, or nothing if that is not known.
  std::optional<uint64_t> rest() const;
  void step(const os::Socket& socket, std::error_code& error);

 private:
  bool read_head(const os::Socket& socket, std::error_code& error);
  bool read_content(const os::Socket& socket, std::error_code& error);

  Incoming wanted_;
  std::string head_;  // as much of the header as is there
  std::optional<FrameHeader> header_;
  uint64_t done_ = 0;  // bytes of the content
  std::string reason_;
};

}  // namespace tachy::distributed
