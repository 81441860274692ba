// Tokenizer: text to token ids for umT5 (SentencePiece unigram).
//
//   auto tokenizer = Tokenizer::open(model / "tokenizer");
//   TokenIds t = encode_padded(*tokenizer, clean_prompt(prompt));   // ids and mask of 512, EOS included
//
// A folder's tokenizer.json is used if there is one (its ids are those of the `tokenizers` library),
// otherwise its spiece.model (with the ids of libsentencepiece). Both give one unknown id for a run of
// characters that the vocabulary lacks, never byte pieces. Objects are immutable, so many threads may call
// encode().
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/vocabulary.h"

namespace tachy {

// A text in the form in which a vocabulary sees it, normalised and with "▁" for its spaces, and the byte at
// which each token begins.
struct TokenLayout {
  std::string text;
  std::vector<size_t> begins;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Opens a folder with tokenizer.json or spiece.model in it or in its `tokenizer` subfolder, or opens one of
  // these files.
  static std::unique_ptr<Tokenizer> open(const std::filesystem::path& folder_or_file);

  // These read bytes in memory; `name` stands for the file in errors. The bytes may be hostile:
  // Error{corrupt} or Error{unsupported} says why they are refused.
  static std::unique_ptr<Tokenizer> from_json(std::string_view bytes, std::string_view name);
  static std::unique_ptr<Tokenizer> from_spiece(std::string_view bytes, std::string_view name);
  // The ids are those of the spiece.model that the vocabulary was taken from.
  static std::unique_ptr<Tokenizer> from_vocabulary(const Vocabulary& vocabulary, std::string_view name);

  // Returns the ids without the closing EOS. The text must be valid UTF-8; Error{invalid_argument} gives the
  // byte offset where it is not.
  virtual std::vector<int32_t> encode(std::string_view cleaned_text) const = 0;

  // Returns where the tokens of encode() begin.
  virtual TokenLayout layout(std::string_view cleaned_text) const = 0;

  virtual int pad_id() const = 0;
  virtual int eos_id() const = 0;
  virtual int unk_id() const = 0;
  virtual int vocab_size() const = 0;           // largest id + 1, including added tokens
  virtual std::string piece(int id) const = 0;  // for reports; empty when there is no such id
  virtual std::string_view source() const = 0;  // "tokenizer.json", "spiece.model" or "vocabulary"
};

struct TokenIds {
  std::vector<int64_t> ids, mask;  // [max_length]; mask is 1 for tokens, including EOS, and 0 for padding
  int64_t dropped = 0;             // tokens of the text for which there was no room
  int64_t length() const;          // number of ones in mask
};

// Truncates to max_length - 1 tokens, appends one EOS, and pads on the right with the pad id.
TokenIds encode_padded(const Tokenizer& tokenizer, std::string_view text, int max_length = 512);

// Returns the words of a text that encode_padded() drops, from the word with the first dropped token (or from
// that token, if spaces do not separate words). If there are many, it gives only the first and last ones:
// "brightly lit … by the sea".
std::string dropped_words(const Tokenizer& tokenizer, std::string_view text, int max_length = 512);

}  // namespace tachy
