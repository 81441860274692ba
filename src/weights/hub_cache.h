// Hugging Face's cache of a model: models--ORG--NAME/ holds snapshots/HASH/, whose files are links into
// blobs/, and refs/main, which contains the hash.
#pragma once

#include <filesystem>

namespace tachy {

// For the root of a cache, returns the snapshot that refs/main names, or the only one, and logs this choice.
// Returns any other path unchanged. Throws not_found for a cache without a snapshot. Throws invalid_argument,
// listing them, if there are several and none is main, or if a folder contains several caches.
std::filesystem::path snapshot_of(const std::filesystem::path& path);

}  // namespace tachy
