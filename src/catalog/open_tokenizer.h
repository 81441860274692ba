// Opens a model's tokenizer: from files, from the bytes of a spiece.model that ComfyUI's text encoders
// contain as a tensor, or from the keys of a text encoder in a GGUF file.
#pragma once

#include <memory>

#include "catalog/model_bundle.h"

namespace tachy {

class Tokenizer;

// Opens the model's tokenizer file or folder, or reads the tokenizer in its text encoder's file.
std::unique_ptr<Tokenizer> open_tokenizer(const ModelBundle& model);
std::unique_ptr<Tokenizer> read_carried_tokenizer(const TensorSource& text_encoder);

}  // namespace tachy
