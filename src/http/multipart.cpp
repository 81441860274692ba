#include "http/multipart.h"

#include <algorithm>

#include "http/header_value.h"

namespace tachy::http {
namespace {

constexpr size_t kMostPadding = 128;  // blanks between a boundary and the end of its line

// RFC 2046: 1 to 70 of these characters, the last one no space.
std::string delimiter_of(std::string_view boundary) {
  const bool fine = !boundary.empty() && boundary.size() <= 70 && boundary.back() != ' ' &&
                    std::all_of(boundary.begin(), boundary.end(), [](char c) {
                      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                             std::string_view("'()+_,-./:=? ").find(c) != std::string_view::npos;
                    });
  require(fine, "multipart: the boundary must have 1 to 70 letters, digits and \"'()+_,-./:=? \"");
  return "\r\n--" + std::string(boundary);
}

bool is_field_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
  });
}

}  // namespace

MultipartReader::MultipartReader(std::string_view boundary, const MultipartLimits& limits, PartSink& sink)
    : delimiter_(delimiter_of(boundary)), limits_(limits), sink_(sink) {}

void MultipartReader::malformed(std::string_view what) const {
  fail(ErrorCode::invalid_argument, "multipart: {} at byte {} of the body", what,
       std::max<int64_t>(0, offset_ + static_cast<int64_t>(at_)));
}

void MultipartReader::push(std::string_view bytes) {
  bytes_ += bytes.size();
  if (bytes_ > limits_.bytes)
    throw TooLarge(fmt::format("the body is too large: at most {} bytes are accepted", limits_.bytes));
  held_ += bytes;
  while (step()) {
  }
  offset_ += static_cast<int64_t>(at_);
  held_.erase(0, at_);
  at_ = 0;
}

void MultipartReader::finish() {
  at_ = held_.size();
  if (state_ != State::epilogue) malformed("the body ends before its last boundary");
}

bool MultipartReader::step() {
  switch (state_) {
    case State::preamble:
      return read_preamble();
    case State::boundary:
      return read_boundary_line();
    case State::header:
      return read_header();
    case State::content:
      return read_content();
    case State::epilogue:
      at_ = held_.size();
      return false;  // it means nothing
  }
  return false;
}

bool MultipartReader::read_preamble() {
  const size_t found = rest().find(delimiter_);
  const size_t passed = found != std::string_view::npos
                            ? found
                            : rest().size() - std::min(rest().size(), delimiter_.size() - 1);
  if (passed > limits_.header_bytes - preamble_) {
    at_ += limits_.header_bytes - preamble_;
    malformed("no boundary was found");
  }
  preamble_ += passed;
  at_ += passed;
  if (found == std::string_view::npos) return false;
  at_ += delimiter_.size();
  state_ = State::boundary;
  return true;
}

bool MultipartReader::read_boundary_line() {
  const std::string_view line = rest();
  if (line.starts_with("--")) {
    at_ += 2;
    state_ = State::epilogue;
    return true;
  }
  if (line == "-") return false;
  const size_t end = std::min(line.find_first_not_of(" \t"), line.size());
  if (end > kMostPadding) malformed("a boundary's line is too long");
  const std::string_view tail = line.substr(end, 2);
  if (!std::string_view("\r\n").starts_with(tail))
    malformed("expected the end of the line behind a boundary");
  if (tail.size() < 2) return false;
  at_ += end + 2;
  state_ = State::header;
  return true;
}

bool MultipartReader::read_header() {
  const std::string_view text = rest();
  if (text.starts_with("\r\n")) malformed("a part has no header");
  const size_t end = text.find("\r\n\r\n");
  // The end that is still to come may have begun in the last three bytes.
  if (end == text.npos ? text.size() > limits_.header_bytes + 3 : end > limits_.header_bytes)
    throw TooLarge(
        fmt::format("the header of a part is too long: at most {} bytes are accepted", limits_.header_bytes));
  if (end == text.npos) return false;
  if (++parts_ > limits_.parts)
    throw TooLarge(fmt::format("the body has too many parts: at most {} are accepted", limits_.parts));
  begin_part(text.substr(0, end));
  at_ += end + 4;
  state_ = State::content;
  return true;
}

void MultipartReader::begin_part(std::string_view header) {
  PartHead head;
  bool disposed = false;
  while (!header.empty()) {
    const std::string_view line = header.substr(0, header.find("\r\n"));
    header.remove_prefix(std::min(header.size(), line.size() + 2));
    const size_t colon = line.find(':');
    if (colon == line.npos || !is_field_name(line.substr(0, colon))) malformed("no header of a part");
    for (const char c : line)
      if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == '\x7f')
        malformed("a control character in the header of a part");
    const std::string_view name = line.substr(0, colon);
    const auto value = parse_header_value(line.substr(colon + 1));
    if (equal_names(name, "Content-Disposition")) {
      const std::string* const field = value ? value->parameter("name") : nullptr;
      if (disposed || !field || value->value != "form-data") malformed("no part of a form");
      disposed = true;
      head.name = *field;
      const std::string* const file = value->parameter("filename");
      head.is_file = file || value->parameter("filename*");
      if (file) head.filename = *file;
    } else if (equal_names(name, "Content-Type")) {
      head.type = value ? value->value : "";
    } else if (equal_names(name, "Content-Transfer-Encoding")) {
      if (!value || (value->value != "binary" && value->value != "8bit" && value->value != "7bit"))
        malformed("a part is encoded");
    }
  }
  if (!disposed) malformed("a part without a name");
  if (std::max(head.name.size(), head.filename.size()) > limits_.name_bytes)
    throw TooLarge(fmt::format("the name of a part or its file is too long: at most {} bytes are accepted",
                               limits_.name_bytes));
  file_ = head.is_file;
  sink_.begin(head);
}

bool MultipartReader::read_content() {
  const std::string_view bytes = rest();
  const size_t found = bytes.find(delimiter_);
  if (found == bytes.npos) {
    // The last bytes may be the begin of a boundary.
    const size_t safe = bytes.size() - std::min(bytes.size(), delimiter_.size() - 1);
    give(bytes.substr(0, safe));
    at_ += safe;
    return false;
  }
  give(bytes.substr(0, found));
  sink_.end();
  at_ += found + delimiter_.size();
  state_ = State::boundary;
  return true;
}

void MultipartReader::give(std::string_view content) {
  if (content.empty()) return;
  if (!file_ && (text_bytes_ += content.size()) > limits_.text_bytes)
    throw TooLarge(
        fmt::format("the texts of the body are too long: at most {} bytes are accepted", limits_.text_bytes));
  sink_.content(content);
}

}  // namespace tachy::http
