// Fuzzes what anybody can send to a rank that waits for others (distributed/greeting.h), and the headers of frames.
// The first byte says what the rest is read as. Bytes that were made without the secret are never welcome.
#include <cstdlib>

#include "../fuzz_input.h"
#include "distributed/frames.h"
#include "distributed/greeting.h"

using namespace tachy;
using namespace tachy::distributed;

namespace {

constexpr const char* kSecret = "what no input can know";

void judge_answer(std::string_view bytes) {
  const std::string number(kNumberBytes, 'n');
  const auto judged = judge(kSecret, number, bytes, 0, 4);
  if (judged && judged->verdict == Verdict::welcome) std::abort();
  if (judged && (judged->reply.size() != kVerdictBytes || judged->from >= 4)) std::abort();
}

void read_the_reply(std::string_view bytes) {
  if (bytes.size() < kChallengeBytes + kVerdictBytes) return;
  const std::string_view asked = bytes.substr(0, kChallengeBytes);
  if (!is_challenge(asked)) return;
  const std::string said = answer(kSecret, asked, std::string(kNumberBytes, 'm'), {1, 0, 4});
  if (judge(kSecret, asked.substr(8), said, 0, 4)->verdict != Verdict::welcome) std::abort();
  if (read_reply(kSecret, asked, said, bytes.substr(kChallengeBytes, kVerdictBytes)) == Verdict::welcome)
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view rest = fuzz::view(data + 1, size - 1);
  if (data[0] % 3 == 0) judge_answer(rest);
  if (data[0] % 3 == 1) read_the_reply(rest);
  if (data[0] % 3 == 2)
    if (const auto header = read_header(rest))
      if (header_bytes(*header) != rest) std::abort();
  if (rest.size() >= 4 && error_in(rest, "rank 1").message().empty() && rest.size() > 4) std::abort();
  return 0;
}
