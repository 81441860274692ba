// The Viterbi algorithm over the bytes of the text. It only visits positions where a character begins.
#include "text/unigram.h"

#include <algorithm>

#include "base/error.h"
#include "text/utf8.h"

namespace tachy::text {

constexpr double kUnknownPenalty = 10.0;

Unigram::Unigram(PieceTable pieces, std::vector<double> scores, int64_t unk_id, UnigramRules rules)
    : pieces_(std::move(pieces)), scores_(std::move(scores)), unk_id_(unk_id), rules_(rules) {
  require(!scores_.empty() && scores_.size() == pieces_.size(),
          "unigram: expected one score a piece, got {} for {}", scores_.size(), pieces_.size());
  index_.build(pieces_);
  unk_score_ =
      rules.unknown_score.value_or(*std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty);
}

void Unigram::encode(std::string_view text, std::vector<int32_t>& ids, std::vector<size_t>* begins) const {
  struct Node {  // the best way to end a piece here
    double score = 0.0;
    int32_t start = -1;
    int32_t id = 0;
  };
  const auto kept = [&](double sum) { return rules_.single_precision ? static_cast<float>(sum) : sum; };
  std::vector<Node> best(text.size() + 1);
  for (size_t at = 0; at < text.size();) {
    const double here = best[at].score;
    const size_t character = char_length(static_cast<unsigned char>(text[at]));
    bool single = false;
    auto offer = [&](size_t length, double score, int64_t id) {
      Node& node = best[at + length];
      if (node.start >= 0 && !(score > node.score)) return;
      node = {score, static_cast<int32_t>(at), static_cast<int32_t>(id)};
    };
    index_.prefixes(pieces_, text.substr(at), [&](size_t length, uint32_t id) {
      offer(length, kept(scores_[id] + here), id);
      single |= length == character;
    });
    if (!single) {
      check(unk_id_ >= 0, ErrorCode::unsupported,
            "tokenizer: the text has a character at byte {} that the vocabulary lacks, and the model has no "
            "unknown token (model.unk_id)",
            at);
      offer(character, kept(unk_score_ + here), unk_id_);
    }
    at += character;
  }

  const size_t first = ids.size(), first_begin = begins ? begins->size() : 0;
  for (size_t end = text.size(); end > 0;) {
    size_t start = static_cast<size_t>(best[end].start);
    int64_t id = best[end].id;
    if (id == unk_id_) {
      while (start > 0 && best[start].id == unk_id_) start = static_cast<size_t>(best[start].start);
      const int64_t whole =
          rules_.unknown_runs_may_be_pieces ? find(text.substr(start, end - start)) : int64_t{-1};
      if (whole >= 0) id = whole;
    }
    ids.push_back(static_cast<int32_t>(id));
    if (begins) begins->push_back(start);
    end = start;
  }
  std::reverse(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end());
  if (begins) std::reverse(begins->begin() + static_cast<std::ptrdiff_t>(first_begin), begins->end());
}

}  // namespace tachy::text
