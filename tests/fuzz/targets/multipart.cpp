// Fuzzes a form that somebody sends. However its bytes are cut into pieces, the same parts come out of it, or
// the same error. The first byte says how they are cut, and how tight the limits are. The rest is the body,
// whose boundary is "b". The texts that a request has beside it go through their readers, too.
#include "http/multipart.h"

#include <algorithm>
#include <vector>

#include "../fuzz_input.h"
#include "http/file_range.h"
#include "http/header_value.h"
#include "http/uri.h"

using namespace tachy;

namespace {

// Writes down what the reader finds, and holds it to the limits.
class Notes : public http::PartSink {
 public:
  explicit Notes(const http::MultipartLimits& limits) : limits_(limits) {}
  void begin(const http::PartHead& head) override {
    if (open_ || ++parts_ > limits_.parts || head.name.size() > limits_.name_bytes) std::abort();
    open_ = true, file_ = head.is_file;
    text += "[" + head.name + (head.is_file ? "<" + head.filename + "|" + head.type + ">" : "") + "]";
  }
  void content(std::string_view bytes) override {
    if (!open_ || bytes.empty()) std::abort();
    if (!file_ && (texts_ += bytes.size()) > limits_.text_bytes) std::abort();
    text += bytes;
  }
  void end() override {
    if (!open_) std::abort();
    open_ = false;
    text += "[end]";
  }
  std::string text;

 private:
  const http::MultipartLimits limits_;
  bool open_ = false, file_ = false;
  size_t parts_ = 0, texts_ = 0;
};

// Returns the parts, or the error's text.
std::string read(std::string_view body, size_t piece, const http::MultipartLimits& limits) {
  Notes notes(limits);
  try {
    http::MultipartReader reader("b", limits, notes);
    for (size_t at = 0; at < body.size(); at += piece) reader.push(body.substr(at, piece));
    reader.finish();
    return notes.text;
  } catch (const Error& e) {
    if (e.code() != ErrorCode::invalid_argument || e.message().empty()) std::abort();
    return "error: " + e.message();
  }
}

void check_texts(std::string_view text) {
  if (const auto value = http::parse_header_value(text); value && value->value.empty()) std::abort();
  if (const auto parts = http::path_parts(text))
    for (const std::string& part : *parts)
      if (part == ".." || part.find('/') != part.npos) std::abort();
  if (const auto query = http::parse_query(text, 8); query && query->size() > 8) std::abort();
  http::Request request;
  request.method = "GET";
  request.headers = {{"Range", std::string(text)}, {"If-None-Match", std::string(text)}};
  for (const uint64_t size : {uint64_t{0}, uint64_t{1}, uint64_t{1000}, UINT64_MAX}) {
    const http::FileAnswer answer = http::answer_file(request, size, "\"e\"");
    if (answer.from > size || answer.bytes > size - answer.from) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view body = fuzz::view(data + 1, size - 1);
  http::MultipartLimits limits;
  if (data[0] % 2 != 0)
    limits = {.parts = 3, .name_bytes = 8, .header_bytes = 100, .text_bytes = 20, .bytes = 400};
  const std::string whole = read(body, std::max<size_t>(body.size(), 1), limits);
  const std::string cut = read(body, 1 + data[0] / 2, limits);
  // With a limit on the whole body, a larger piece may be refused before what is wrong in it is seen.
  if (cut != whole && !(body.size() > limits.bytes && whole.starts_with("error: "))) std::abort();
  check_texts(body);
  return 0;
}
