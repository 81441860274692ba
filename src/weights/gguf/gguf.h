// GGUF files: transformers under the original names (architecture "wan") and text encoders under llama.cpp's
// (architecture "t5encoder"), quantised or not.
//
// A quantised tensor is an entry that is made when it is read (TensorSource::Entry::derived). Code that keeps
// it whole keeps float32, the exact values of its type. All other tensors are used where they lie in the
// file. metadata() has the header's scalars and strings under their keys.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "base/vocabulary.h"
#include "weights/gguf/gguf_header.h"
#include "weights/tensor_source.h"

namespace tachy {

// Restores shapes that converters changed (the keys comfy.gguf.orig_shape.NAME). If a file is split, `path`
// may name any of its parts (gguf_parts.h).
std::shared_ptr<TensorSource> open_gguf(const std::filesystem::path& path,
                                        FileAccess access = FileAccess::map);

bool is_gguf(const MappedFile& file);

// Reads the tokenizer from the keys tokenizer.ggml.*; its views live as long as the file. Returns nothing if
// there is none, and throws unsupported if it does not belong to a T5 (SentencePiece unigram).
std::optional<Vocabulary> gguf_vocabulary(const GgufHeader& header, std::string_view path);
// Does the same for the file of a source, if this is a GGUF file.
std::optional<Vocabulary> gguf_vocabulary(const TensorSource& source);

}  // namespace tachy
