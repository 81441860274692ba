// Replies to requests, with the headers that all of them have. Private to src/serve.
#pragma once

#include <boost/beast/http.hpp>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "serve/recording.h"

namespace tachy::serve {

namespace http = boost::beast::http;

using TextReply = http::response<http::string_body>;
using FileReply = http::response<http::file_body>;

TextReply text_reply(http::status status, std::string_view type, std::string text);
// Returns one of our pages, with each mark replaced: {"{{text}}", "Somebody else …"}.
using Marks = std::initializer_list<std::pair<std::string_view, std::string_view>>;
TextReply page_reply(http::status status, std::string_view file, Marks marks);
TextReply json_reply(http::status status, const std::string& json);
// Returns the recording as a download; null if its file cannot be read any more.
std::shared_ptr<FileReply> file_reply(const RecordedFile& file);

}  // namespace tachy::serve
