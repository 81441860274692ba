// The body of a request while it arrives: a text in memory, or a form whose files go to the spool.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"
#include "http/multipart.h"
#include "http/spool.h"

namespace tachy::http {

// The parts of a multipart body. It writes to the disk, so it is used in a thread that may wait for it.
class Form : private PartSink {
 public:
  Form(std::string_view boundary, const MultipartLimits& limits, const Spool& spool);
  void push(std::string_view bytes) { reader_.push(bytes); }  // throws as MultipartReader does, and io
  std::vector<Part> finish();                                 // throws as MultipartReader does

 private:
  void begin(const PartHead& head) override;
  void content(std::string_view bytes) override;
  void end() override;

  const Spool& spool_;
  std::vector<Part> parts_;
  std::optional<SpoolWriter> file_;
  MultipartReader reader_;
};

// The kind of a body, by its request's header.
struct BodyKind {
  Request::Body kind = Request::Body::none;
  bool unsupported = false;  // a media type that this server does not take: the reply is 415
  std::string boundary;      // of a multipart body
};
// JSON, text of any kind and a body without a type are texts. Throws invalid_argument for a malformed type.
BodyKind body_kind(const Request& request, bool has_body);

}  // namespace tachy::http
