#include "weights/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/last_words.h"
#include "base/part_name.h"

namespace tachy {

OutputFile::OutputFile(const std::filesystem::path& path) : path_(path), fd_(create_part(path, part_)) {
  check(fd_ >= 0, ErrorCode::io, "{}: cannot create: {}", path_.string(), std::strerror(errno));
}

OutputFile::~OutputFile() {
  if (owned_) ::unlink(part_.c_str());
  if (fd_ >= 0) ::close(fd_);
  forget_temporary(part_.native());
}

void OutputFile::write_at(uint64_t offset, const void* data, uint64_t bytes) {
  auto at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::pwrite(fd_, at, std::min<uint64_t>(bytes, 1u << 30), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    check(done > 0, ErrorCode::io, "{}: cannot write: {}", path_.string(), std::strerror(errno));
    at += done;
    offset += static_cast<uint64_t>(done), bytes -= static_cast<uint64_t>(done);
  }
}

void OutputFile::commit(uint64_t bytes, bool replace) {
  check(::ftruncate(fd_, static_cast<off_t>(bytes)) == 0, ErrorCode::io, "{}: cannot write: {}",
        path_.string(), std::strerror(errno));
  check(::fsync(fd_) == 0, ErrorCode::io, "{}: cannot sync: {}", path_.string(), std::strerror(errno));
  bool named = false;
  if (!replace) {  // a second name fails where the first one is taken
    named = ::link(part_.c_str(), path_.c_str()) == 0;
    if (!named && errno == EEXIST) {
      owned_ = false;
      fail(ErrorCode::io, "{}: it has appeared in the meantime; what was made is {}", path_.string(),
           part_.string());
    }
  }
  if (named)
    ::unlink(part_.c_str());
  else
    check(::rename(part_.c_str(), path_.c_str()) == 0, ErrorCode::io, "{}: cannot rename the finished {}: {}",
          path_.string(), part_.string(), std::strerror(errno));
  owned_ = false;
  const int closed = ::close(std::exchange(fd_, -1));
  check(closed == 0, ErrorCode::io, "{}: cannot close: {}", path_.string(), std::strerror(errno));
}

}  // namespace tachy
