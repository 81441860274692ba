// A sharded checkpoint, whose index names one file per tensor. Only tensors of the index are listed, and each
// must be in the shard that the index names. Names of shards are plain file names, so an index cannot reach
// outside its folder.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/foreign_file.h"
#include "weights/json_file.h"
#include "weights/open_file.h"
#include "weights/quote.h"
#include "weights/safetensors.h"

namespace tachy {
namespace {

constexpr size_t kMaxShards = 4096;

bool is_plain_name(std::string_view name) {
  if (name.empty() || name.size() > 255 || name == "." || name == "..") return false;
  if (name.ends_with(".json")) return false;  // an index that names an index would never end
  return std::none_of(name.begin(), name.end(),
                      [](char c) { return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20; });
}

}  // namespace

std::shared_ptr<TensorSource> open_sharded(const std::filesystem::path& index_path, FileAccess access) {
  const std::string where = index_path.string();
  const nlohmann::json index = read_json(index_path);
  const auto map = index.find("weight_map");
  check(map != index.end() && map->is_object(), ErrorCode::corrupt, "{}: expected an object \"weight_map\"",
        where);

  std::map<std::string, std::vector<std::string>> by_shard;
  for (const auto& [name, shard] : map->items()) {
    check(shard.is_string(), ErrorCode::corrupt, "{}: weight_map: {}: expected a file name", where,
          in_quotes(name));
    const auto& file_name = shard.get_ref<const std::string&>();
    check(is_plain_name(file_name), ErrorCode::corrupt,
          "{}: weight_map: {}: expected a plain file name of a shard, got {}", where, in_quotes(name),
          in_quotes(file_name));
    by_shard[file_name].push_back(name);
    check(by_shard.size() <= kMaxShards, ErrorCode::corrupt, "{}: more than {} shards", where, kMaxShards);
  }
  check(!by_shard.empty(), ErrorCode::corrupt, "{}: the weight_map is empty", where);

  std::vector<TensorSource::Entry> entries;
  std::vector<std::shared_ptr<const MappedFile>> files;
  std::map<std::string, std::string> metadata;
  for (const auto& [shard_name, names] : by_shard) {
    const auto path = index_path.parent_path() / shard_name;
    std::error_code error;
    check(std::filesystem::is_regular_file(path, error), ErrorCode::not_found,
          "{}: shard {} is missing (it holds {} tensors, {} among them): {}", where, in_quotes(shard_name),
          names.size(), in_quotes(names.front()), why_missing(path, "file"));
    const auto shard = open_by_content(path, access);
    for (const auto& name : names) {
      const auto* found = shard->find(name);
      check(found != nullptr, ErrorCode::corrupt, "{}: tensor {} is not in its shard {}", where,
            in_quotes(name), path.string());
      auto entry = *found;
      entry.file += static_cast<uint32_t>(files.size());
      entries.push_back(std::move(entry));
    }
    files.insert(files.end(), shard->files().begin(), shard->files().end());
    metadata.insert(shard->metadata().begin(), shard->metadata().end());
  }
  return std::make_shared<TensorSource>(std::move(entries), std::move(files), std::move(metadata));
}

}  // namespace tachy
