#include "http/answer.h"

#include <utility>

#include "base/error.h"
#include "http/file_range.h"
#include "http/reply_head.h"

namespace tachy::http {
namespace {

const std::string* find_header(const Pairs& headers, std::string_view name) {
  for (const auto& [key, value] : headers)
    if (equal_names(key, name)) return &value;
  return nullptr;
}

// Adds the file and the headers of its range.
Answer answer_with_file(Reply reply, const Request& request, const ServerOptions& options) {
  const FileBody body = std::get<FileBody>(std::move(reply.body));
  Answer out{.status = reply.status, .headers = std::move(reply.headers)};
  std::error_code error;
  auto file = std::make_shared<os::File>(body.path, os::OpenAs::regular_input, error);
  const os::FileFacts facts = error ? os::FileFacts{} : file->facts(error);
  if (error == std::errc::no_such_file_or_directory) return answer_error(404, nullptr, request, options);
  check(!error && facts.regular, ErrorCode::io, "{}: cannot be read: {}", body.path.string(),
        error ? error.message() : "no file");
  if (out.status == 200) {
    FileAnswer range = answer_file(request, facts.bytes, body.etag);
    if (range.status == 416) {
      Answer refused = answer_error(416, nullptr, request, options);
      for (auto& header : range.headers) refused.headers.push_back(std::move(header));
      return refused;
    }
    out.status = range.status, out.from = range.from, out.bytes = range.bytes;
    for (auto& header : range.headers) out.headers.push_back(std::move(header));
  } else {
    out.bytes = facts.bytes;
  }
  if (out.status != 304) out.file = std::move(file);
  return out;
}

}  // namespace

Answer answer_of(Reply reply, const Request& request, const ServerOptions& options) {
  if (std::holds_alternative<FileBody>(reply.body))
    return answer_with_file(std::move(reply), request, options);
  Answer out{.status = reply.status, .headers = std::move(reply.headers)};
  if (auto* feed = std::get_if<std::shared_ptr<EventFeed>>(&reply.body)) {
    out.feed = std::move(*feed);
    if (!find_header(out.headers, "Content-Type"))
      out.headers.emplace_back("Content-Type", "text/event-stream");
    // nginx would otherwise keep events back until it has a buffer full of them.
    out.headers.emplace_back("X-Accel-Buffering", "no");
    return out;
  }
  out.text = std::get<std::string>(std::move(reply.body));
  const std::string* const etag = find_header(out.headers, "ETag");
  const std::string_view known = request.header("If-None-Match");
  if (etag && out.status == 200 && !known.empty() && etag_matches(known, *etag))
    out.status = 304, out.text.clear();
  return out;
}

Answer answer_error(int status, const std::exception* error, const Request& request,
                    const ServerOptions& options) {
  try {
    if (options.on_error) return answer_of(options.on_error(status, error, request), request, options);
  } catch (const std::exception&) {
    status = 500;
    error = nullptr;  // nobody can put it into words
  }
  // The text of any other exception than an Error may tell a caller too much.
  const auto* const known = dynamic_cast<const Error*>(error);
  Reply plain =
      text_reply(status, fmt::format("{}\n", known ? known->message() : std::string(reason_phrase(status))));
  return answer_of(std::move(plain), request, options);
}

std::optional<Answer> answer_at_once(const Route& route, Request& request, const ServerOptions& options) {
  if (!route.at_once) return std::nullopt;
  try {
    auto reply = route.at_once(request);
    if (!reply) return std::nullopt;
    return answer_of(std::move(*reply), request, options);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

Answer run_handler(const Route& route, Request& request, const ServerOptions& options) {
  try {
    return answer_of(route.handler(request), request, options);
  } catch (const std::exception& e) {
    return answer_error(500, &e, request, options);
  } catch (...) {
    return answer_error(500, nullptr, request, options);
  }
}

}  // namespace tachy::http
