#include "distributed/frames.h"

#include <algorithm>
#include <array>

#include "distributed/greeting.h"

namespace tachy::distributed {
namespace {

constexpr uint64_t kWord = 0x4d415246;  // "FRAM"
constexpr size_t kPiece = size_t{16} << 20, kTextPiece = size_t{1} << 20;

}  // namespace

std::string header_bytes(const FrameHeader& header) {
  return number_bytes(kWord, 4) + number_bytes(static_cast<uint64_t>(header.kind), 4) +
         number_bytes(header.bytes, 8);
}

std::optional<FrameHeader> read_header(std::string_view bytes) {
  if (bytes.size() != kHeaderBytes || number_in(bytes.substr(0, 4)) != kWord) return std::nullopt;
  const uint64_t kind = number_in(bytes.substr(4, 4)), length = number_in(bytes.substr(8, 8));
  if (kind < 1 || kind > 4) return std::nullopt;
  const auto known = static_cast<FrameKind>(kind);
  if (known == FrameKind::last && (length < 4 || length > kMostReasonBytes)) return std::nullopt;
  return FrameHeader{known, length};
}

std::string reason_bytes(const Error& reason) {
  return number_bytes(static_cast<uint64_t>(reason.code()), 4) +
         reason.message().substr(0, kMostReasonBytes - 4);
}

Error error_in(std::string_view content, const std::string& name) {
  const uint64_t code = number_in(content.substr(0, 4));
  const auto known =
      code <= static_cast<uint64_t>(ErrorCode::internal) ? static_cast<ErrorCode>(code) : ErrorCode::device;
  const std::string text(content.substr(4));
  return Error(known, text.starts_with("rank ") ? text : name + ": " + text);
}

void Sending::step(const os::Socket& socket, std::error_code& error) {
  while (!finished() && !error) {
    const size_t head = header_.size();
    const auto rest = done_ < head ? bytes_in(header_).subspan(done_) : content_.subspan(done_ - head);
    const size_t sent = socket.send(rest.first(std::min(kPiece, rest.size())), error);
    if (sent == 0) return;
    done_ += sent;
  }
}

std::optional<uint64_t> Receiving::rest() const {
  if (header_) return header_->bytes - done_;
  if (head_.empty()) return 0;
  return std::nullopt;
}

void Receiving::step(const os::Socket& socket, std::error_code& error) {
  while (!finished() && !error)
    if (!(header_ ? read_content(socket, error) : read_head(socket, error))) return;
}

bool Receiving::read_head(const os::Socket& socket, std::error_code& error) {
  std::array<uint8_t, kHeaderBytes> room{};
  const size_t got = socket.receive(std::span(room).first(kHeaderBytes - head_.size()), error);
  head_.append(reinterpret_cast<const char*>(room.data()), got);
  if (head_.size() < kHeaderBytes) return got > 0;
  const auto header = read_header(head_);
  check(header.has_value(), ErrorCode::device, "rank {} sends what is no frame of ours", from());
  header_ = header;
  if (last()) return true;
  check(header_->kind == wanted_.kind, ErrorCode::internal,
        "ranks: rank {} sent a frame of kind {} where kind {} is expected", from(),
        static_cast<int>(header_->kind), static_cast<int>(wanted_.kind));
  check(wanted_.text || header_->bytes == wanted_.bytes.size(), ErrorCode::internal,
        "ranks: {} bytes were sent where {} are expected", header_->bytes, wanted_.bytes.size());
  if (wanted_.text) wanted_.text->clear();
  return true;
}

bool Receiving::read_content(const os::Socket& socket, std::error_code& error) {
  const auto done = static_cast<size_t>(done_);
  std::string* const text = last() ? &reason_ : wanted_.text;
  const auto piece =
      static_cast<size_t>(std::min<uint64_t>(text ? kTextPiece : kPiece, header_->bytes - done_));
  if (text) text->resize(done + piece);
  const auto room = text ? std::span(reinterpret_cast<uint8_t*>(text->data()) + done, piece)
                         : wanted_.bytes.subspan(done, piece);
  const size_t got = socket.receive(room, error);
  done_ += got;
  if (text) text->resize(static_cast<size_t>(done_));
  return got > 0;
}

}  // namespace tachy::distributed
