#include "weights/output_file.h"

#include <system_error>

#include "base/error.h"
#include "base/last_words.h"
#include "base/part_name.h"

namespace tachy {

namespace fs = std::filesystem;

OutputFile::OutputFile(const fs::path& path) : path_(path) {
  std::error_code error;
  file_ = create_part(path, part_, error);
  check(!error, ErrorCode::io, "{}: cannot create: {}", path_.string(), error.message());
}

OutputFile::~OutputFile() {
  std::error_code ignored;
  if (owned_) fs::remove(part_, ignored);
  file_.close();
  forget_temporary(part_.native());
}

void OutputFile::write_at(uint64_t offset, const void* data, uint64_t bytes) {
  const std::error_code error = file_.write_at(offset, data, bytes);
  check(!error, ErrorCode::io, "{}: cannot write: {}", path_.string(), error.message());
}

void OutputFile::commit(uint64_t bytes, bool replace) {
  std::error_code error = file_.resize(bytes);
  check(!error, ErrorCode::io, "{}: cannot write: {}", path_.string(), error.message());
  error = file_.sync();
  check(!error, ErrorCode::io, "{}: cannot sync: {}", path_.string(), error.message());
  bool named = false;
  if (!replace) {  // adding a second name fails if this name is taken
    fs::create_hard_link(part_, path_, error);
    named = !error;
    if (error == std::errc::file_exists) {
      owned_ = false;
      fail(ErrorCode::io, "{}: it has appeared in the meantime; what was made is {}", path_.string(),
           part_.string());
    }
  }
  if (named) {
    fs::remove(part_, error);
  } else {
    fs::rename(part_, path_, error);
    check(!error, ErrorCode::io, "{}: cannot rename the finished {}: {}", path_.string(), part_.string(),
          error.message());
  }
  owned_ = false;
  error = file_.close();
  check(!error, ErrorCode::io, "{}: cannot close: {}", path_.string(), error.message());
}

}  // namespace tachy
