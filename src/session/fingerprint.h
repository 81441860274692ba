// Tells models apart by 64 letters: SHA-256 over the parts' options, the tokenizer's files, and the weight
// files: whole up to 8 MB, beyond that their size, both ends and 64 samples between. A resumed run must not
// go on with other weights; reading tens of gigabytes to know that would take longer than many runs.
#pragma once

#include <span>
#include <string>

#include "catalog/model_bundle.h"

namespace tachy {

// Differs when a part's options, weights or tokenizer differ; the folder's name and place play no part.
// With adapters (VideoRequest::loras), also when one of them is another file.
std::string fingerprint(const ModelBundle& model, std::span<const std::string> loras = {});

}  // namespace tachy
