#include "distributed/greeting.h"

#include "base/error.h"
#include "base/hmac.h"

namespace tachy::distributed {
namespace {

constexpr std::string_view kName = "TACHYRK1";
constexpr size_t kProofBytes = 32;

std::string_view number_of(std::string_view message) { return message.substr(kName.size(), kNumberBytes); }

// Returns the proof of an answer without it.
std::string asking_proof(std::string_view secret, std::string_view waiting_number,
                         std::string_view unproved) {
  return std::string(
      bytes_of(hmac_sha256(secret, "tachyscope asks" + std::string(waiting_number) + std::string(unproved))));
}

std::string answering_proof(std::string_view secret, std::string_view waiting_number, std::string_view answer,
                            Verdict verdict) {
  return std::string(
      bytes_of(hmac_sha256(secret, "tachyscope answers" + std::string(waiting_number) + std::string(answer) +
                                       number_bytes(static_cast<uint64_t>(verdict), 4))));
}

}  // namespace

std::string number_bytes(uint64_t value, size_t bytes) {
  std::string out(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(value >> (8 * i));
  return out;
}

uint64_t number_in(std::string_view bytes) {
  uint64_t out = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    out |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  return out;
}

std::string challenge(std::string_view number) { return std::string(kName) + std::string(number); }

bool is_challenge(std::string_view bytes) {
  return bytes.size() == kChallengeBytes && bytes.starts_with(kName.substr(0, kName.size() - 1));
}

std::string answer(std::string_view secret, std::string_view challenge, std::string_view number,
                   Seats seats) {
  check(challenge.size() == kChallengeBytes && number.size() == kNumberBytes, ErrorCode::internal,
        "greeting: {} bytes of a challenge, {} of a number", challenge.size(), number.size());
  std::string out = std::string(kName) + std::string(number);
  for (const int seat : {seats.from, seats.to, seats.ranks})
    out += number_bytes(static_cast<uint64_t>(seat), 4);
  return out + asking_proof(secret, number_of(challenge), out);
}

std::string reply_to(std::string_view secret, std::string_view number, std::string_view answer,
                     Verdict verdict) {
  return number_bytes(static_cast<uint64_t>(verdict), 4) + answering_proof(secret, number, answer, verdict);
}

std::optional<Judged> judge(std::string_view secret, std::string_view number, std::string_view answer, int me,
                            int ranks) {
  if (answer.size() != kAnswerBytes || !answer.starts_with(kName.substr(0, kName.size() - 1)))
    return std::nullopt;
  const auto seat = [&](size_t i) {
    return number_in(answer.substr(kName.size() + kNumberBytes + 4 * i, 4));
  };
  const uint64_t from = seat(0), to = seat(1), theirs = seat(2);
  const std::string_view unproved = answer.substr(0, kAnswerBytes - kProofBytes);
  Judged out;
  if (!answer.starts_with(kName))
    out.verdict = Verdict::other_protocol;
  else if (!equal_in_constant_time(asking_proof(secret, number, unproved), answer.substr(unproved.size())))
    out.verdict = Verdict::wrong_secret;
  else if (theirs != static_cast<uint64_t>(ranks))
    out.verdict = Verdict::other_ranks;
  else if (to != static_cast<uint64_t>(me) || from <= to || from >= theirs)
    out.verdict = Verdict::not_awaited;
  if (from < static_cast<uint64_t>(ranks)) out.from = static_cast<int>(from);
  out.reply = reply_to(secret, number, answer, out.verdict);
  return out;
}

Verdict read_reply(std::string_view secret, std::string_view challenge, std::string_view answer,
                   std::string_view reply) {
  check(challenge.size() == kChallengeBytes && reply.size() == kVerdictBytes, ErrorCode::internal,
        "greeting: {} bytes of a challenge, {} of a reply", challenge.size(), reply.size());
  const auto verdict = static_cast<Verdict>(number_in(reply.substr(0, 4)));
  if (challenge.substr(0, kName.size()) != kName) return Verdict::other_protocol;
  const std::string proof = answering_proof(secret, number_of(challenge), answer, verdict);
  if (!equal_in_constant_time(proof, reply.substr(4)))
    return verdict == Verdict::other_protocol ? verdict : Verdict::wrong_secret;
  return verdict;
}

}  // namespace tachy::distributed
