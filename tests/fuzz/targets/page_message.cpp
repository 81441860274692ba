// Fuzzes what a visitor of a world's page sends: a message of the socket or a ticket, and the names, origins and queries
// of a request. The first byte chooses between them.
#include <cmath>

#include "../fuzz_input.h"
#include "http/access.h"
#include "serve/messages.h"

using namespace tachy;

namespace {

void check_message(std::string_view text, const WorldInfo& info) {
  const serve::ClientMessage message = serve::parse_message(text, info);
  if (const auto* input = std::get_if<serve::InputMessage>(&message)) {
    if (input->action.keyboard.size() != info.keys.size() ||
        input->action.mouse.size() != (info.mouse ? 2 : 0))
      std::abort();
    for (const auto* values : {&input->action.keyboard, &input->action.mouse})
      for (const float v : *values)
        if (!(std::abs(v) <= 1)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view text = fuzz::view(data + 1, size - 1);
  if (data[0] % 2 == 0) {
    WorldInfo info{.kind = "universal", .keys = {"W", "S", "A", "D"}};
    info.mouse = data[0] % 4 == 0, info.takes_prompt = data[0] % 4 != 0;
    fuzz::expect_error_or_result([&] { check_message(text, info); });
    fuzz::expect_error_or_result([&] {
      if (serve::parse_ticket(text).size() > text.size()) std::abort();
    });
    return 0;
  }
  const http::Access here("127.0.0.1", "abcdefgh"), everywhere("0.0.0.0", "abcdefgh");
  // Any host that a page for this machine alone lets in must also be let in by a page on all addresses.
  if (here.host_allowed(text) && !everywhere.host_allowed(text)) std::abort();
  if (here.token_allowed(text) != (text == "abcdefgh")) std::abort();
  if (http::Access::origin_allowed(text, "localhost") && text.size() < 16) std::abort();
  if (http::query_value(text, "token").size() > text.size() || http::path_of(text).size() > text.size())
    std::abort();
  return 0;
}
