// The unigram model of SentencePiece: it finds the segmentation whose pieces have the largest sum of log
// probabilities.
//
//   best(e) = max over pieces text[s..e) of best(s) + score(piece),  best(0) = 0
//
// A character that is not a piece by itself may also be unknown, with the score (smallest score) - 10; a run
// of unknowns is one token. Scores are summed in double precision. Of equal sums the first counts, in the
// order of the `tokenizers` library (by start, then by length), so that ties are decided alike.
// libsentencepiece uses the same order, but rounds its sums to single precision before it compares them
// (UnigramRules).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/piece_index.h"

namespace tachy::text {

// The rules in which libsentencepiece and `tokenizers` differ; the defaults are those of `tokenizers`.
struct UnigramRules {
  bool single_precision = false;           // rounds the sums
  bool unknown_runs_may_be_pieces = true;  // a whole run of unknowns is looked up as one piece
  std::optional<double> unknown_score;     // if empty, the smallest of all scores, less 10
};

class Unigram {
 public:
  // With unk_id -1, the model has no unknown token. Every piece must have a finite score; an empty piece is
  // never found.
  Unigram(PieceTable pieces, std::vector<double> scores, int64_t unk_id, UnigramRules rules = {});

  // Appends the ids of `text` (valid UTF-8) to `ids`, and the byte at which each begins to `begins`. Throws
  // Error{unsupported} for an unknown character if there is no unk_id.
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
