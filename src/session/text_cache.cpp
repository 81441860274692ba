#include "session/text_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "base/log.h"
#include "base/os/process.h"
#include "base/sha256.h"
#include "weights/safetensors.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kSampleBytes = 4096;
constexpr uint64_t kHeaderRoom = 64 << 10;  // the number of bytes by which a cached file may be larger than
                                            // its values

std::span<const uint8_t> bytes_of(const void* data, size_t bytes) {
  return {static_cast<const uint8_t*>(data), bytes};
}

// Adds the first, middle and last row of a tensor that is made when it is read.
void add_rows(Sha256& hash, const TensorSource::Entry& entry) {
  hash.add(entry.derived->encoding());
  if (std::find(entry.dims.begin(), entry.dims.end(), 0) != entry.dims.end()) return;
  int64_t width = 1;
  for (size_t i = 1; i < entry.dims.size(); ++i) width *= entry.dims[i];
  const int64_t rows = entry.dims[0];
  std::vector<float> values(static_cast<size_t>(width));
  for (const int64_t row : {int64_t{0}, rows / 2, rows - 1}) {
    entry.derived->decode(row, Tensor(values.data(), DType::f32, {1, width}));
    hash.add(bytes_of(values.data(), values.size() * sizeof(float)));
  }
}

void add_samples(Sha256& hash, const TensorSource::Entry& entry) {
  if (entry.derived) return add_rows(hash, entry);
  const auto all = bytes_of(entry.data, entry.data ? entry.bytes : 0);
  if (all.size() <= 3 * kSampleBytes) return hash.add(all);
  hash.add(all.first(kSampleBytes));
  hash.add(all.subspan(all.size() / 2, kSampleBytes));
  hash.add(all.last(kSampleBytes));
}

std::string ids_text(const TextCache::Key& key) { return fmt::format("{}", fmt::join(key.ids, " ")); }

std::string hash_of(std::span<const float> text) {
  return sha256_hex(bytes_of(text.data(), text.size_bytes()));
}

std::map<std::string, std::string> metadata_of(const TextCache::Key& key, std::span<const float> text) {
  return {{"kind", "tachyscope text embedding"},
          {"encoder", key.encoder},
          {"how", key.how},
          {"sha256", hash_of(text)}};
}

// Reads the values of a file that repeats its key; otherwise throws, naming what is wrong with it.
std::vector<float> read(const fs::path& path, const TextCache::Key& key) {
  const uint64_t rows = key.ids.size(), count = rows * static_cast<uint64_t>(key.width);
  const uint64_t size = fs::file_size(path), values = count * sizeof(float) + rows * sizeof(int64_t);
  check(size >= values && size <= values + kHeaderRoom, ErrorCode::corrupt,
        "expected {} bytes and a header, got {}", values, size);
  const auto source = open_safetensors(path, FileAccess::read);
  const auto* ids = source->find("ids");
  const auto* text = source->find("text");
  check(ids && ids->dtype == DType::i64 && ids->dims == std::vector{static_cast<int64_t>(rows)} && text &&
            text->dtype == DType::f32 && text->dims == std::vector{static_cast<int64_t>(rows), key.width},
        ErrorCode::corrupt, "expected 'ids' [{}] and 'text' [{}, {}]", rows, rows, key.width);
  std::vector<float> out(count);
  std::memcpy(out.data(), text->data, count * sizeof(float));
  check(std::memcmp(ids->data, key.ids.data(), rows * sizeof(int64_t)) == 0 &&
            source->metadata() == metadata_of(key, out),
        ErrorCode::corrupt, "its values are damaged, or belong to another encoder or prompt");
  check(std::all_of(out.begin(), out.end(), [](float v) { return std::isfinite(v); }), ErrorCode::corrupt,
        "its values are not finite");
  return out;
}

}  // namespace

std::string encoder_fingerprint(const ModelBundle& m) {
  m.text_encoder->check_files();
  Sha256 hash;
  const auto& config = m.files.text_encoder.config;
  hash.add(config ? config->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) : "none");
  for (const auto& file : m.text_encoder->files())
    hash.add(fmt::format("\nfile of {} bytes, changed at {}", file->size(), file->modified_ns()));
  for (const auto& entry : m.text_encoder->entries()) {
    hash.add(fmt::format("\n{} {} {}:", entry.name, dtype_name(entry.dtype), shape_string(entry.dims)));
    add_samples(hash, entry);
  }
  return hash.hex();
}

std::string program_identity() {
  constexpr int64_t kSecond = 1'000'000'000;
  const os::FileFacts program = os::executable_facts();
  return fmt::format("tachyscope {}, {} bytes of {}.{:09}", TACHY_VERSION, program.bytes,
                     program.modified_ns / kSecond, program.modified_ns % kSecond);
}

TextCache::TextCache(fs::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  if (fs::is_directory(folder_, error)) return;
  check(!fs::exists(folder_, error), ErrorCode::io, "`text_cache`: {} is no folder", folder_.string());
  fs::create_directory(folder_, error);
  check(
      fs::is_directory(folder_), ErrorCode::io,
      "`text_cache`: there is no folder {} and it cannot be made: {}; a folder inside one that exists works",
      folder_.string(), error.message());
}

fs::path TextCache::file_of(const Key& key) const {
  Sha256 hash;
  for (const std::string& part : {key.encoder, key.how, ids_text(key)})
    hash.add(fmt::format("{}:{}\n", part.size(), part));
  hash.add(fmt::format("{}", key.width));
  return folder_ / (hash.hex() + ".safetensors");
}

std::optional<std::vector<float>> TextCache::find(const Key& key) const {
  const fs::path path = file_of(key);
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  try {
    std::vector<float> out = read(path, key);
    log_topic("load", "text embedding of {} tokens from {}", key.ids.size(), path.string());
    return out;
  } catch (const std::exception& e) {
    warn("`text_cache`: {} is not used, but made again: {}", path.string(), e.what());
    return std::nullopt;
  }
}

void TextCache::keep(const Key& key, std::span<const float> text) const {
  const fs::path path = file_of(key);
  // Nobody else uses this name, whatever process, machine or container shares the folder.
  std::random_device random;
  const fs::path own = folder_ / fmt::format("{}.{:08x}{:08x}.new", path.stem().string(), random(), random());
  try {
    const auto rows = static_cast<int64_t>(key.ids.size());
    const Tensor ids(const_cast<int64_t*>(key.ids.data()), DType::i64, {rows});
    const Tensor values(const_cast<float*>(text.data()), DType::f32, {rows, key.width});
    write_safetensors(own, {{"ids", ids}, {"text", values}}, metadata_of(key, text));
    fs::rename(own, path);
  } catch (const std::exception& e) {
    std::error_code ignored;
    fs::remove(own, ignored);
    warn("`text_cache`: the embedding could not be kept: {}", e.what());
  }
}

}  // namespace tachy
