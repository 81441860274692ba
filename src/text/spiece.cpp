#include "text/spiece.h"

#include <limits>

#include "base/error.h"
#include "text/limits.h"
#include "text/spiece_file.h"
#include "text/spiece_normalizer.h"
#include "text/unigram.h"

namespace tachy::text {
namespace {

constexpr double kUnknownPenalty = 10.0;

// Control, byte, unused and unknown pieces never stand for text, so the model gets empty pieces in their
// place, which it does not find. A user-defined piece scores higher than any other way to read its bytes.
Unigram make_model(const SpieceFile& file) {
  float least = std::numeric_limits<float>::max(), most = std::numeric_limits<float>::min();
  for (size_t i = 0; i < file.types.size(); ++i) {
    if (file.types[i] != PieceType::normal) continue;
    least = std::min(least, file.scores[i]), most = std::max(most, file.scores[i]);
  }
  PieceTable pieces;
  pieces.reserve(file.pieces.size(), file.pieces.bytes());
  std::vector<double> scores;
  int64_t unk_id = -1;
  for (size_t i = 0; i < file.types.size(); ++i) {
    const PieceType type = file.types[i];
    const std::string_view text = file.pieces[i];
    if (type == PieceType::unknown) unk_id = static_cast<int64_t>(i);
    pieces.add(type == PieceType::normal || type == PieceType::user_defined ? text : std::string_view());
    scores.push_back(type == PieceType::user_defined ? static_cast<float>(text.size()) * most - 0.1
                                                     : double{file.scores[i]});
  }
  return Unigram(std::move(pieces), std::move(scores), unk_id,
                 {.single_precision = true,
                  .unknown_runs_may_be_pieces = false,
                  .unknown_score = static_cast<float>(least - kUnknownPenalty)});
}

class SpieceTokenizer final : public Tokenizer {
 public:
  SpieceTokenizer(SpieceFile file, std::string_view name, std::string_view source)
      : model_(make_model(file)), normalizer_(file), pieces_(std::move(file.pieces)), source_(source) {
    eos_ = control_piece(file, file.eos_piece);
    pad_ = control_piece(file, file.pad_piece);
    check(eos_ >= 0, ErrorCode::unsupported, "{}: the model has no end piece", name);
    check(pad_ >= 0, ErrorCode::unsupported, "{}: the model has no padding piece", name);
  }

  std::vector<int32_t> encode(std::string_view text) const override {
    require_text(text);
    std::vector<int32_t> ids;
    model_.encode(normalizer_.apply(text), ids);
    return ids;
  }

  TokenLayout layout(std::string_view text) const override {
    require_text(text);
    TokenLayout out{.text = normalizer_.apply(text), .begins = {}};
    std::vector<int32_t> ids;
    model_.encode(out.text, ids, &out.begins);
    return out;
  }

  int pad_id() const override { return pad_; }
  int eos_id() const override { return eos_; }
  int unk_id() const override { return static_cast<int>(model_.unk_id()); }
  int vocab_size() const override { return static_cast<int>(pieces_.size()); }
  std::string piece(int id) const override {
    return id >= 0 && id < vocab_size() ? std::string(pieces_[static_cast<size_t>(id)]) : std::string();
  }
  std::string_view source() const override { return source_; }

 private:
  int control_piece(const SpieceFile& file, std::string_view text) const {
    for (size_t i = 0; i < file.types.size(); ++i)
      if (file.types[i] == PieceType::control && pieces_[i] == text) return static_cast<int>(i);
    return -1;
  }

  Unigram model_;
  SpieceNormalizer normalizer_;
  PieceTable pieces_;
  std::string_view source_;
  int eos_ = -1, pad_ = -1;
};

}  // namespace

std::unique_ptr<Tokenizer> read_spiece_tokenizer(std::string_view bytes, std::string_view name) {
  return std::make_unique<SpieceTokenizer>(read_spiece_file(bytes, name), name, "spiece.model");
}

std::unique_ptr<Tokenizer> make_spiece_tokenizer(const Vocabulary& from, std::string_view name) {
  return std::make_unique<SpieceTokenizer>(make_spiece_file(from, name), name, "vocabulary");
}

}  // namespace tachy::text
