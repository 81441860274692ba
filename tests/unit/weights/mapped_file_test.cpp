// Tests mapped files: bytes in one are copied by reading the file, whoever owns the mapping by now; if the
// file has become shorter, the result is an error, not a signal.
#include "weights/mapped_file.h"

#include <chrono>

#include "support.h"

namespace tachy {
namespace {

using test::TempFolder;

constexpr size_t kBytes = 300'000;

std::string content() {
  std::string out(kBytes, 0);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<char>(i * 31 + (i >> 8));
  return out;
}

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

TEST(MappedFile, CopiesOfItsBytes) {
  const TempFolder folder;
  const std::string bytes = content();
  write(folder / "a", bytes);
  for (const FileAccess access : {FileAccess::map, FileAccess::read}) {
    MappedFile first(folder / "a", access);
    const MappedFile file(std::move(first));
    for (const auto& [begin, count] :
         {std::pair<size_t, size_t>{0, kBytes}, {1, 65536}, {4097, 200'001}, {7, 3}}) {
      std::string got(count, 'x');
      copy_from_file(got.data(), file.data() + begin, count);
      EXPECT_EQ(got, bytes.substr(begin, count)) << begin;
    }
  }
  std::string got(kBytes, 'x');
  copy_from_file(got.data(), bytes.data(), kBytes);  // the bytes are not in a file, even if one was mapped
                                                     // there before
  EXPECT_EQ(got, bytes);
}

TEST(MappedFile, ReadsWhatTheFileHoldsAndNotWhatPagesDo) {
  const TempFolder folder;
  write(folder / "a", content());
  const MappedFile file(folder / "a");
  std::filesystem::resize_file(folder / "a", 100'000);
  std::string got(150'000, 'x');
  try {
    copy_from_file(got.data(), file.data() + 50'000, got.size());
    ADD_FAILURE() << "the bytes are not there";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::io);
    EXPECT_THAT(e.message(), testing::HasSubstr((folder / "a").string()));
    EXPECT_THAT(e.message(), testing::HasSubstr("ends at byte 100000"));
  }
}

TEST(MappedFile, KnowsWhenItsFileChanged) {
  const TempFolder folder;
  write(folder / "a", content());
  const auto before = std::filesystem::last_write_time(folder / "a");
  const MappedFile mapped(folder / "a"), read(folder / "a", FileAccess::read);
  const int64_t then = mapped.modified_ns();
  EXPECT_GT(then, 0);
  EXPECT_EQ(read.modified_ns(), then);
  std::filesystem::last_write_time(folder / "a", before + std::chrono::seconds(2));
  EXPECT_EQ(mapped.modified_ns(), then + 2'000'000'000);
  EXPECT_EQ(read.modified_ns(), then) << "its bytes are of that time";
}

}  // namespace
}  // namespace tachy
