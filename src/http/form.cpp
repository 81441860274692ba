#include "http/form.h"

#include "base/utf8.h"
#include "http/header_value.h"

namespace tachy::http {

Form::Form(std::string_view boundary, const MultipartLimits& limits, const Spool& spool)
    : spool_(spool), reader_(boundary, limits, *this) {}

void Form::begin(const PartHead& head) {
  require(find_invalid_utf8(head.name) == kValidUtf8 && head.name.find('\0') == head.name.npos,
          "multipart: the name of part {} is no UTF-8", parts_.size() + 1);
  parts_.push_back({.name = head.name, .text = {}, .file = nullptr});
  // Names and types of files are only shown, so one that is not UTF-8 is left out.
  const auto text = [](const std::string& s) { return find_invalid_utf8(s) == kValidUtf8 ? s : ""; };
  if (head.is_file) file_.emplace(spool_.begin(text(head.filename), text(head.type)));
}

void Form::content(std::string_view bytes) {
  if (file_)
    file_->add(bytes);
  else
    parts_.back().text += bytes;
}

void Form::end() {
  Part& part = parts_.back();
  if (file_) {
    part.file = file_->finish();
    file_.reset();
    return;
  }
  const size_t invalid = find_invalid_utf8(part.text);
  require(invalid == kValidUtf8, "`{}`: expected UTF-8, which byte {} is not", part.name, invalid);
}

std::vector<Part> Form::finish() {
  reader_.finish();
  return std::move(parts_);
}

BodyKind body_kind(const Request& request, bool has_body) {
  BodyKind out;
  if (!has_body) return out;
  const std::string_view type = request.header("Content-Type"), encoding = request.header("Content-Encoding");
  out.kind = Request::Body::text;
  if (!encoding.empty() && !equal_names(encoding, "identity")) out.unsupported = true;
  if (type.empty()) return out;
  const auto value = parse_header_value(type);
  require(value.has_value(), "Content-Type: expected a media type");
  const std::string& media = value->value;
  if (media == "multipart/form-data") {
    const std::string* const boundary = value->parameter("boundary");
    require(boundary != nullptr, "Content-Type: multipart/form-data needs a boundary");
    out.kind = Request::Body::multipart;
    out.boundary = *boundary;
  } else if (media != "application/json" && !media.ends_with("+json") && !media.starts_with("text/")) {
    out.unsupported = true;
  }
  return out;
}

}  // namespace tachy::http
