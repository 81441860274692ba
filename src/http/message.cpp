#include "http/message.h"

#include <algorithm>

#include "base/disk.h"
#include "base/error.h"

namespace tachy::http {

bool equal_names(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

SpooledFile::~SpooledFile() {
  std::error_code ignored;
  if (!kept_) std::filesystem::remove(path_, ignored);
}

void SpooledFile::keep(const std::filesystem::path& to) {
  // The content is on the disk before the name is, so that no name stands for half a file after a loss of
  // power.
  std::error_code error = sync_to_disk(path_);
  if (!error) std::filesystem::rename(path_, to, error);
  if (!error) path_ = to, kept_ = true;
  if (!error) error = sync_to_disk(to.parent_path());
  check(!error, ErrorCode::io, "{}: cannot keep an uploaded file there: {}", to.string(), error.message());
}

std::string_view Request::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (equal_names(key, name)) return value;
  return "";
}

const std::string* Request::asked(std::string_view name) const {
  for (const auto& [key, value] : query)
    if (key == name) return &value;
  return nullptr;
}

Reply json_reply(int status, std::string json) {
  return {.status = status, .headers = {{"Content-Type", "application/json"}}, .body = std::move(json)};
}

Reply text_reply(int status, std::string text) {
  return {
      .status = status, .headers = {{"Content-Type", "text/plain; charset=utf-8"}}, .body = std::move(text)};
}

}  // namespace tachy::http
