// The unigram model of SentencePiece: the segmentation whose pieces' log probabilities have the largest sum.
//
//   best(e) = max over pieces text[s..e) of best(s) + score(piece),  best(0) = 0
//
// A character that is no piece by itself may also be unknown, at (smallest score) - 10; a run of unknowns is
// one token. Scores are summed in double precision and the first of equal sums is kept, in the order of the
// `tokenizers` library (by start, then by length), so that ties end equal.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/piece_index.h"

namespace tachy::text {

class Unigram {
 public:
  // unk_id -1: the model has no unknown token. Scores are finite, one a piece.
  Unigram(PieceTable pieces, std::vector<double> scores, int64_t unk_id);

  // Appends the ids of `text` (valid UTF-8). Throws
  // Error{unsupported} at an unknown character without unk_id.
  void encode(std::string_view text, std::vector<int32_t>& ids) const;

  int64_t find(std::string_view piece) const { return index_.find(pieces_, piece); }
  const PieceTable& pieces() const { return pieces_; }
  int64_t unk_id() const { return unk_id_; }

 private:
  PieceTable pieces_;
  std::vector<double> scores_;
  PieceIndex index_;
  int64_t unk_id_;
  double unk_score_ = 0.0;
};

}  // namespace tachy::text
