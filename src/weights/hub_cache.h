// Hugging Face's cache of a model: models--ORG--NAME/ with snapshots/HASH/, whose files are links into blobs/, and refs/main,
// which says the hash.
#pragma once

#include <filesystem>

namespace tachy {

// The snapshot of a cache's root, that of refs/main or the only one, which is said; any other path as it is. Throws
// not_found for a cache without one, and invalid_argument, naming them, for several of which none is main, and for a
// folder of several caches.
std::filesystem::path snapshot_of(const std::filesystem::path& path);

}  // namespace tachy
