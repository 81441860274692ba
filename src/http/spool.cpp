#include "http/spool.h"

#include <atomic>

#include "base/disk.h"
#include "base/error.h"

namespace tachy::http {
namespace {

// It is shared by all spools of the process, so that two writers never choose one name.
std::atomic<uint64_t> next_upload{1};

void check_written(const std::error_code& error, const SpooledFile& file) {
  check(!error, ErrorCode::io, "{}: cannot write what was uploaded: {}", file.path().string(),
        error.message());
}

}  // namespace

SpoolWriter::SpoolWriter(std::shared_ptr<SpooledFile> file) : file_(std::move(file)) {
  std::error_code error;
  out_ = os::File(file_->path(), os::OpenAs::new_file, error);
  check_written(error, *file_);
}

void SpoolWriter::add(std::string_view bytes) {
  check_written(out_.write(bytes.data(), bytes.size()), *file_);
  hash_.add(bytes);
  file_->bytes += bytes.size();
}

std::shared_ptr<SpooledFile> SpoolWriter::finish() {
  check_written(out_.close(), *file_);
  file_->sha256 = hash_.hex();
  return std::move(file_);
}

Spool::Spool(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  const auto left = error ? std::vector<std::filesystem::path>{} : list_folder(folder_, error);
  check(!error, ErrorCode::io, "{}: cannot use this folder for uploads: {}", folder_.string(),
        error.message());
  for (const auto& path : left)
    if (!is_folder(path)) std::filesystem::remove(path, error);
}

SpoolWriter Spool::begin(std::string filename, std::string type) const {
  const std::string name = fmt::format("upload-{}", next_upload++);
  return SpoolWriter(std::make_shared<SpooledFile>(folder_ / name, std::move(filename), std::move(type)));
}

}  // namespace tachy::http
