// A model's tokenizer: files, the bytes of spiece.model that ComfyUI's text encoders carry as a tensor, or the
// keys of a text encoder in a GGUF file.
#pragma once

#include <memory>

#include "catalog/model_bundle.h"

namespace tachy {

class Tokenizer;

// From a file or folder, or what the text encoder's file carries.
std::unique_ptr<Tokenizer> open_tokenizer(const ModelBundle& model);
std::unique_ptr<Tokenizer> read_carried_tokenizer(const TensorSource& text_encoder);

}  // namespace tachy
