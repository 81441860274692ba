// GGUF files: transformers under the original names (architecture "wan") and text encoders under llama.cpp's
// (architecture "t5encoder"), quantised or not.
//
// A quantised tensor is an entry that is made when it is read (TensorSource::Entry::derived). Code that keeps
// it whole keeps it as float32, the type's own values. All other tensors are used where they lie in the file.
// Scalars and strings of the header are in metadata() under their keys.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "base/vocabulary.h"
#include "weights/gguf/gguf_header.h"
#include "weights/tensor_source.h"

namespace tachy {

// Restores shapes that converters took apart (the keys comfy.gguf.orig_shape.NAME). Any part of a split file
// stands for all of them (gguf_parts.h).
std::shared_ptr<TensorSource> open_gguf(const std::filesystem::path& path,
                                        FileAccess access = FileAccess::map);

bool is_gguf(const MappedFile& file);

// Reads the tokenizer from the keys tokenizer.ggml.*; its views live as long as the file. Returns nothing
// when there is none, and throws unsupported when it is not that of a T5 (SentencePiece unigram).
std::optional<Vocabulary> gguf_vocabulary(const GgufHeader& header, std::string_view path);
// Does the same for the file that a source was opened from, if that is GGUF.
std::optional<Vocabulary> gguf_vocabulary(const TensorSource& source);

}  // namespace tachy
