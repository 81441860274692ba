#include "nn/upload_check.h"

#include <algorithm>
#include <atomic>

#include "base/checksum.h"
#include "base/env.h"
#include "base/log.h"
#include "nn/params.h"

namespace tachy::nn {
namespace {

constexpr size_t kTile = size_t{1} << 20;  // bytes that a thread sums at a time; must be a multiple of 4

uint64_t host_checksum(const void* data, size_t bytes, ThreadPool& pool) {
  std::atomic<uint64_t> sum{0};
  pool.run(static_cast<int64_t>((bytes + kTile - 1) / kTile), [&](int64_t tile, int) {
    const size_t begin = static_cast<size_t>(tile) * kTile;
    sum += checksum_of(static_cast<const char*>(data) + begin, std::min(kTile, bytes - begin), begin / 4);
  });
  return sum;
}

// Returns the file's tensor that contains p, or null.
const TensorSource::Entry* entry_at(const std::vector<const TensorSource::Entry*>& sorted, const void* p) {
  const auto after = std::upper_bound(sorted.begin(), sorted.end(), p,
                                      [](const void* at, const auto* entry) { return at < entry->data; });
  if (after == sorted.begin()) return nullptr;
  const auto* entry = *(after - 1);
  return static_cast<const char*>(p) < static_cast<const char*>(entry->data) + entry->bytes ? entry : nullptr;
}

}  // namespace

UploadCheck::UploadCheck(StreamingMemory& memory, ThreadPool& pool) : memory_(memory), pool_(pool) {
  memory_.uploaded = [this](const Upload& upload) { parts_[part_].push_back(upload); };
  memory_.visited = [this](const Upload& upload) {
    const std::lock_guard lock(visits_);
    if (on_device(upload) != in_file(upload)) report(upload, "a weight that came for a product");
  };
}
UploadCheck::~UploadCheck() { memory_.uploaded = memory_.visited = nullptr; }

void UploadCheck::begin(std::string part) {
  part_ = std::move(part);
  parts_[part_].clear();
}

uint64_t UploadCheck::on_device(const Upload& u) {
  const auto bytes = static_cast<size_t>(u.to.bytes());
  return u.image ? host_checksum(u.image, bytes, pool_) : memory_.checksum(u.to.data, bytes);
}

uint64_t UploadCheck::in_file(const Upload& u) {
  const auto bytes = static_cast<size_t>(u.to.bytes());
  if (values_.size() < bytes) values_ = Buffer(bytes);
  convert_weight(u.source, values_.tensor(u.to.dtype, u.to.shape()), pool_);
  return host_checksum(values_.data(), bytes, pool_);
}

int64_t UploadCheck::verify(const std::string& part, const TensorSource& file, const std::string& when) {
  std::vector<const TensorSource::Entry*> sorted;
  for (const auto& entry : file.entries()) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->data < b->data; });
  file.check_files();
  int64_t compared = 0;
  uint64_t bytes = 0;
  for (const Upload& u : parts_[part]) {
    const auto* entry = entry_at(sorted, u.source.data);
    if (!entry) continue;
    if (on_device(u) != in_file(u))
      report(u, fmt::format("{}, {}: '{}' of {}", part, when, entry->name_in_file, file.file_of(*entry)));
    ++compared, bytes += static_cast<uint64_t>(u.to.bytes());
  }
  log_topic("load", "{}: {} uploaded tensors ({}) are what the file holds, {}", part, compared,
            human_bytes(bytes), when);
  return compared;
}

// Compares both sides again, byte by byte, to find out which one is unreliable.
void UploadCheck::report(const Upload& u, const std::string& what) {
  const auto bytes = static_cast<size_t>(u.to.bytes());
  const Buffer there(bytes);
  if (u.image)
    std::memcpy(there.data(), u.image, bytes);
  else
    dynamic_cast<DeviceMemory&>(memory_).download(there.data(), u.to.data, bytes);
  const uint64_t file = in_file(u);
  const auto *a = static_cast<const uint8_t*>(values_.data()), *b = static_cast<const uint8_t*>(there.data());
  size_t different = 0, first = 0, last = 0;
  for (size_t i = 0; i < bytes; ++i)
    if (a[i] != b[i]) first = different++ ? first : i, last = i;
  const bool device_again = on_device(u) == host_checksum(there.data(), bytes, pool_),
             file_again = in_file(u) == file;
  const char* place = u.image ? "in page-locked host memory" : "on the GPU";
  fail(ErrorCode::device,
       "`verify_upload`: {} is not {} what its file holds: {}{}{}; memory, disk or the way between them "
       "fails, or "
       "another program writes to the file",
       what, place,
       different
           ? fmt::format("{} of {} bytes differ, from byte {} to {} ({:#04x} there, {:#04x} in the file)",
                         different, bytes, first, last, b[first], a[first])
           : std::string("at a second look they agree"),
       device_again ? "" : fmt::format("; what lies {} is another value at each look", place),
       file_again ? "" : "; the file gives another value at each look");
}

}  // namespace tachy::nn
