// The first bytes of a connection between two ranks, after which each knows that the other has the same
// secret (TACHY_RANK_SECRET) and belongs to the same run. They have fixed sizes, and nothing else is read
// before:
//
//   waiting rank     → "TACHYRK1", a number that nobody can foresee
//   connecting rank  → "TACHYRK1", its own number, who it is and whom it wants, HMAC(secret, "asks" and all)
//   waiting rank     → a verdict, HMAC(secret, "answers" and all)
//
// Both numbers are in both proofs, so an old proof is worth nothing, and the words in them keep one side's
// proof from serving as the other's. What is exchanged afterwards is neither encrypted nor signed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tachy::distributed {

inline constexpr size_t kNumberBytes = 32, kChallengeBytes = 8 + kNumberBytes,
                        kAnswerBytes = 8 + kNumberBytes + 12 + 32, kVerdictBytes = 4 + 32;

// The rank that connects, the one that it wants, and how many there are.
struct Seats {
  int from = 0, to = 0, ranks = 0;
};

enum class Verdict : uint32_t { welcome, wrong_secret, other_protocol, other_ranks, not_awaited };

// Each takes the numbers as texts of kNumberBytes.
std::string challenge(std::string_view number);
std::string answer(std::string_view secret, std::string_view challenge, std::string_view number, Seats seats);

// Reads an answer of kAnswerBytes to the challenge with `number`. Returns nothing for bytes of something that
// is not ours at all.
struct Judged {
  Verdict verdict = Verdict::welcome;
  int from = -1;      // as it says; believe it only if it is welcome
  std::string reply;  // kVerdictBytes
};
std::optional<Judged> judge(std::string_view secret, std::string_view number, std::string_view answer, int me,
                            int ranks);
// Makes the reply anew with another verdict, for a rank that is there already.
std::string reply_to(std::string_view secret, std::string_view number, std::string_view answer,
                     Verdict verdict);

bool is_challenge(std::string_view bytes);
// Reads a reply. A welcome without the right proof counts as wrong_secret.
Verdict read_reply(std::string_view secret, std::string_view challenge, std::string_view answer,
                   std::string_view reply);

// Numbers of the protocol, least significant byte first.
std::string number_bytes(uint64_t value, size_t bytes);
uint64_t number_in(std::string_view bytes);

}  // namespace tachy::distributed
