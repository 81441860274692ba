// Tokenizer: text to token ids for umT5 (SentencePiece unigram).
//
//   auto tokenizer = Tokenizer::open(model / "tokenizer");
//   TokenIds t = encode_padded(*tokenizer, clean_prompt(prompt));   // ids and mask of 512, EOS included
//
// A folder's tokenizer.json decides when present (its ids are those of the `tokenizers` library), otherwise
// spiece.model (those of libsentencepiece). Both give one fused unknown id for a run of characters that the
// vocabulary lacks, never byte pieces. Objects are immutable: encode() may be called from many threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/vocabulary.h"

namespace tachy {

// A text as a vocabulary sees it: normalised, "▁" for its spaces; and at which byte of it each token begins.
struct TokenLayout {
  std::string text;
  std::vector<size_t> begins;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // A folder (tokenizer.json or spiece.model in it, or in its `tokenizer` subfolder) or one of the two files.
  static std::unique_ptr<Tokenizer> open(const std::filesystem::path& folder_or_file);

  // The same from bytes in memory; `name` stands for the file in error texts. Bytes may be hostile:
  // Error{corrupt} or Error{unsupported} says why they were refused.
  static std::unique_ptr<Tokenizer> from_json(std::string_view bytes, std::string_view name);
  static std::unique_ptr<Tokenizer> from_spiece(std::string_view bytes, std::string_view name);
  // The ids are those of the spiece.model that the vocabulary was taken from.
  static std::unique_ptr<Tokenizer> from_vocabulary(const Vocabulary& vocabulary, std::string_view name);

  // Ids without the closing EOS. Text must be valid UTF-8 (Error{invalid_argument} names the byte offset).
  virtual std::vector<int32_t> encode(std::string_view cleaned_text) const = 0;

  // Where the tokens of encode() lie.
  virtual TokenLayout layout(std::string_view cleaned_text) const = 0;

  virtual int pad_id() const = 0;
  virtual int eos_id() const = 0;
  virtual int unk_id() const = 0;
  virtual int vocab_size() const = 0;           // largest id + 1, added tokens included
  virtual std::string piece(int id) const = 0;  // for reports; empty when there is no such id
  virtual std::string_view source() const = 0;  // "tokenizer.json", "spiece.model" or "vocabulary"
};

struct TokenIds {
  std::vector<int64_t> ids, mask;  // [max_length]; mask is 1 on tokens, the EOS included, and 0 on padding
  int64_t dropped = 0;             // tokens of the text for which there was no room
  int64_t length() const;          // number of ones in mask
};

// Truncates to max_length - 1 tokens, appends EOS once, pads on the right with the pad id.
TokenIds encode_padded(const Tokenizer& tokenizer, std::string_view text, int max_length = 512);

// Returns the words that encode_padded() drops of a text, from the one on in which the first dropped token lies (from that
// token on where words are not set apart by spaces); many are given by the first and last ones: "brightly lit … by the sea".
std::string dropped_words(const Tokenizer& tokenizer, std::string_view text, int max_length = 512);

}  // namespace tachy
