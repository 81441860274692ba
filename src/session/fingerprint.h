// Tells models apart by 64 hexadecimal digits: a SHA-256 over the parts' options, the tokenizer's files, and
// the weight files. Weight files up to 8 MB are hashed whole; of larger ones only the size, both ends and 64
// samples between them are hashed. A resumed run must not continue with other weights; reading tens of
// gigabytes to make sure would take longer than many runs.
#pragma once

#include <span>
#include <string>

#include "catalog/model_bundle.h"

namespace tachy {

// Differs between models if a part's options, weights or tokenizer differ; the folder's name and place do not
// matter. With adapters (VideoRequest::loras), it also differs if one of them is another file.
std::string fingerprint(const ModelBundle& model, std::span<const std::string> loras = {});

}  // namespace tachy
