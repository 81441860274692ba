// The sorted list of entries, and open_weights(). The first bytes tell formats apart, and folders are
// recognised by the file names of diffusers, transformers and the original repositories.
#include "weights/tensor_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "base/disk.h"
#include "base/error.h"
#include "base/foreign_file.h"
#include "weights/gguf/gguf.h"
#include "weights/gguf/gguf_parts.h"
#include "weights/hub_cache.h"
#include "weights/open_file.h"
#include "weights/quote.h"
#include "weights/safetensors.h"
#include "weights/torch/torch_zip.h"

namespace tachy {
namespace fs = std::filesystem;

TensorSource::TensorSource(std::vector<Entry> entries, std::vector<std::shared_ptr<const MappedFile>> files,
                           std::map<std::string, std::string> metadata)
    : entries_(std::move(entries)), files_(std::move(files)), metadata_(std::move(metadata)) {
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  for (size_t i = 0; i + 1 < entries_.size(); ++i) {
    check(entries_[i].name != entries_[i + 1].name, ErrorCode::corrupt,
          "{}: expected distinct tensor names, got {} twice", file_of(entries_[i]),
          in_quotes(entries_[i].name));
  }
}

const TensorSource::Entry* TensorSource::find(std::string_view name) const {
  const auto it = std::lower_bound(entries_.begin(), entries_.end(), name,
                                   [](const Entry& e, std::string_view n) { return e.name < n; });
  return it != entries_.end() && it->name == name ? &*it : nullptr;
}

const std::vector<int64_t>& TensorSource::dims_of(std::string_view part, std::string_view name,
                                                  size_t rank) const {
  const Entry* entry = find(name);
  check(entry != nullptr, ErrorCode::not_found, "{}: no tensor '{}' in {}", part, name, files_text());
  check(entry->dims.size() == rank, ErrorCode::corrupt, "{}: tensor {}: expected {} dimensions, got {}",
        file_of(*entry), in_quotes(entry->name_in_file), rank, entry->dims.size());
  return entry->dims;
}

std::string TensorSource::file_of(const Entry& entry) const {
  return entry.file < files_.size() ? files_[entry.file]->path() : std::string("(no file)");
}

std::string TensorSource::files_text() const {
  if (files_.empty()) return "(no file)";
  if (files_.size() == 1) return files_[0]->path();
  return fmt::format("{} and {} more", files_[0]->path(), files_.size() - 1);
}

uint64_t TensorSource::mapped_bytes() const {
  uint64_t total = 0;
  for (const auto& file : files_)
    if (!file->in_memory()) total += file->size();
  return total;
}

uint64_t TensorSource::read_bytes() const {
  uint64_t total = 0;
  for (const auto& file : files_)
    if (file->in_memory()) total += align_up(file->size());
  return total;
}

void TensorSource::check_files() const {
  for (const auto& file : files_) file->check_unchanged();
}

namespace {

constexpr std::array<std::string_view, 12> kUsualNames = {
    "diffusion_pytorch_model.safetensors",
    "diffusion_pytorch_model.safetensors.index.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "diffusion_pytorch_model.bf16.safetensors",
    "diffusion_pytorch_model.fp16.safetensors",
    "model.bf16.safetensors",
    "model.fp16.safetensors",
    "diffusion_pytorch_model.bin",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "diffusion_pytorch_model.bin.index.json",
};

bool is_index_name(std::string_view name) { return name.ends_with(".index.json"); }

// Returns (2, 3) for "model-00002-of-00003.safetensors", and nothing for other names or a single shard.
std::optional<std::pair<int, int>> shard_number(std::string_view name) {
  constexpr std::string_view kShape = "-00000-of-00000";
  const size_t dot = name.rfind('.');
  if (dot == name.npos || dot < kShape.size()) return std::nullopt;
  const std::string_view ending = name.substr(dot - kShape.size(), kShape.size());
  for (size_t i = 0; i < kShape.size(); ++i)
    if (kShape[i] == '0' ? ending[i] < '0' || ending[i] > '9' : ending[i] != kShape[i]) return std::nullopt;
  const auto number = [&](size_t at) { return std::stoi(std::string(ending.substr(at, 5))); };
  const int count = number(10);
  return count > 1 ? std::optional(std::pair(number(1), count)) : std::nullopt;
}

// Returns the only file of the folder that `wanted` accepts, or an empty path. Several such files are an
// error.
template <class Wanted>
fs::path only_file(const fs::path& folder, Wanted wanted) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const fs::path& item : list_folder(folder, error)) {
    std::error_code ignored;
    if (fs::is_regular_file(item, ignored) && wanted(item.filename().string())) found.push_back(item);
  }
  check(!error, ErrorCode::io, "{}: cannot list the folder: {}", folder.string(), error.message());
  if (found.size() > 1 && shard_number(found[0].filename().string())) refuse_lone_shard(found[0]);
  if (found.size() > 1)
    fail(ErrorCode::invalid_argument, "{}: expected one weights file, got {} and {} (name the file itself)",
         folder.string(), found[0].filename().string(), found[1].filename().string());
  return found.empty() ? fs::path() : found[0];
}

std::shared_ptr<TensorSource> told_by_head(const fs::path& path, FileAccess access) {
  std::string head;
  {
    const MappedFile file(path);
    check(file.size() > 0, ErrorCode::corrupt, "{}: the file is empty: download it again", path.string());
    head.assign(reinterpret_cast<const char*>(file.data()), std::min<uint64_t>(file.size(), kKindBytes));
  }
  // GGUF is tested first, because its ninth byte, the low one of the number of tensors, can have any value.
  if (head.starts_with("GGUF")) return open_gguf(path, access);
  if (head.size() > 8 && head[8] == '{') return open_safetensors(path, access);
  if (head.starts_with("PK")) return open_torch_zip(path, access);
  if (head[0] == '{' && path.filename().string().ends_with(".json")) return open_sharded(path, access);
  refuse_foreign(head, path, "tensors in a safetensors, GGUF or PyTorch file");
  // The reader of safetensors has more precise errors.
  if (path.extension() == ".safetensors") return open_safetensors(path, access);
  return open_torch_zip(path, access);
}

}  // namespace

void refuse_lone_shard(const fs::path& path) {
  const std::string name = path.filename().string();
  const auto shard = name.ends_with(".gguf") ? std::nullopt : shard_number(name);
  if (!shard) return;
  const std::string index = name.substr(0, name.rfind('-') - 9) + path.extension().string() + ".index.json";
  std::error_code ignored;
  const bool there = fs::is_regular_file(path.parent_path() / index, ignored);
  fail(ErrorCode::invalid_argument, "{}: it is shard {} of {}, a part of the tensors alone: name {}",
       path.string(), shard->first, shard->second,
       there ? fmt::format("its index, {}, or the folder", (path.parent_path() / index).string())
             : fmt::format("the index of all shards, {}, which is not beside it and must be downloaded too",
                           index));
}

std::shared_ptr<TensorSource> open_by_content(const fs::path& path, FileAccess access) {
  refuse_unfinished(path);
  try {
    return told_by_head(path, access);
  } catch (const Error& e) {
    const std::string unfinished = unfinished_name(path);
    if (e.code() != ErrorCode::corrupt || unfinished.empty()) throw;
    fail(e.code(), "{}; {}", e.message(), unfinished);
  }
}

fs::path find_weights(const fs::path& folder) {
  for (const auto name : kUsualNames) {
    std::error_code ignored;
    if (fs::is_regular_file(folder / name, ignored)) return folder / name;
    // A dangling link is an error, because the file that would be tried next may have another precision, or
    // be something else altogether.
    check(!lies_at(folder / name) || fs::exists(folder / name, ignored), ErrorCode::not_found, "{}: {}",
          (folder / name).string(), why_missing(folder / name));
  }
  if (auto path = only_file(folder, is_index_name); !path.empty()) return path;
  if (auto path = only_file(folder, [](std::string_view n) { return n.ends_with(".safetensors"); });
      !path.empty())
    return path;
  if (auto path = only_file(
          folder, [](std::string_view n) { return n.ends_with(".gguf") && !is_later_gguf_part(n); });
      !path.empty())
    return path;
  return only_file(folder, [](std::string_view n) { return n.ends_with(".pth") || n.ends_with(".pt"); });
}

std::shared_ptr<TensorSource> open_weights(const fs::path& named, FileAccess access) {
  std::error_code error;
  const fs::path path = snapshot_of(named);
  const auto status = fs::status(path, error);
  check(fs::exists(status), ErrorCode::not_found, "{}: {}", path.string(), why_missing(path));
  if (!fs::is_directory(status)) return open_by_content(path, access);
  const fs::path found = find_weights(path);
  if (found.empty()) refuse_dangling_link(path);
  check(
      !found.empty(), ErrorCode::not_found,
      "{}: expected weights (diffusion_pytorch_model.safetensors, model.safetensors, their .index.json with "
      "shards, or a single .safetensors, .gguf, .pth or .pt file), found none",
      path.string());
  return open_by_content(found, access);
}

std::shared_ptr<TensorSource> joined(const TensorSource& first, const TensorSource& second) {
  std::vector<TensorSource::Entry> entries(first.entries().begin(), first.entries().end());
  auto files = first.files();
  const auto before = static_cast<uint32_t>(files.size());
  files.insert(files.end(), second.files().begin(), second.files().end());
  for (TensorSource::Entry entry : second.entries()) {
    entry.file += before;
    entries.push_back(std::move(entry));
  }
  return std::make_shared<TensorSource>(std::move(entries), std::move(files), first.metadata());
}

}  // namespace tachy
