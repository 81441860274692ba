// The unigram model of SentencePiece: the segmentation whose pieces' log probabilities have the largest sum.
//
//   best(e) = max over pieces text[s..e) of best(s) + score(piece),  best(0) = 0
//
// A character that is no piece by itself may also be unknown, at (smallest score) - 10; a run of unknowns is
// one token. Scores are summed in double precision and the first of equal sums is kept, in the order of the
// `tokenizers` library (by start, then by length), so that ties end equal. libsentencepiece goes in the same
// order but has its sums in single precision before it compares them (UnigramRules).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/piece_index.h"

namespace tachy::text {

// Where libsentencepiece and `tokenizers`, whose rules are the defaults, go different ways.
struct UnigramRules {
  bool single_precision = false;           // of the sums
  bool unknown_runs_may_be_pieces = true;  // a whole run of unknowns is looked up as one piece
  std::optional<double> unknown_score;     // empty: the smallest of all scores, less 10
};

class Unigram {
 public:
  // unk_id -1: the model has no unknown token. Scores are finite, one a piece; an empty piece is never found.
  Unigram(PieceTable pieces, std::vector<double> scores, int64_t unk_id, UnigramRules rules = {});

  // Appends the ids of `text` (valid UTF-8), and to `begins` at which byte of it each begins. Throws
  // Error{unsupported} at an unknown character without unk_id.
  void encode(std::string_view text, std::vector<int32_t>& ids, std::vector<size_t>* begins = nullptr) const;

  int64_t find(std::string_view piece) const { return index_.find(pieces_, piece); }
  const PieceTable& pieces() const { return pieces_; }
  int64_t unk_id() const { return unk_id_; }

 private:
  PieceTable pieces_;
  std::vector<double> scores_;
  PieceIndex index_;
  int64_t unk_id_;
  UnigramRules rules_;
  double unk_score_ = 0.0;
};

}  // namespace tachy::text
