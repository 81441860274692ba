// Reads and checks a spiece.model (the protobuf of a SentencePiece model); fields are named as in
// sentencepiece_model.proto:
//
//   ModelProto       1 pieces (1 piece, 2 score, 3 type)   2 trainer_spec   3 normalizer_spec
//   TrainerSpec      3 model_type   24 treat_whitespace_as_suffix   47 eos_piece   48 pad_piece
//   NormalizerSpec   2 precompiled_charsmap   3 add_dummy_prefix   4 remove_extra_whitespaces
//                    5 escape_whitespaces
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/vocabulary.h"
#include "text/charsmap.h"
#include "text/piece_index.h"

namespace tachy::text {

enum class PieceType : unsigned char { normal = 1, unknown, control, user_defined, unused, byte };

struct SpieceFile {
  PieceTable pieces;
  std::vector<float> scores;     // one for each piece
  std::vector<PieceType> types;  // one for each piece; one of them is unknown
  std::optional<Charsmap> charsmap;
  std::string eos_piece = "</s>", pad_piece = "<pad>";
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
  bool whitespace_as_suffix = false;
};

// Throws Error{corrupt} or Error{unsupported} unless `bytes` is a sound SentencePiece unigram model.
SpieceFile read_spiece_file(std::string_view bytes, std::string_view name);

// Makes the same struct from another file's vocabulary, with the same errors.
SpieceFile make_spiece_file(const Vocabulary& from, std::string_view name);

}  // namespace tachy::text
