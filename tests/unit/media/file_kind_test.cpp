// For files with a wrong name, or of a kind that is not supported, the error names the kind and what to do.
#include <gmock/gmock.h>

#include "media/picture/image_reader.h"
#include "media/sound/sound_reader.h"
#include "media/video/video_reader.h"
#include "media_testing.h"

namespace tachy {
namespace {
using namespace tachy::testing;
using ::testing::HasSubstr;

class FileKindTest : public MediaTest {
 protected:
  template <class F>
  std::string message(const std::string& name, std::string bytes, F&& read) {
    bytes.resize(std::max<size_t>(bytes.size(), 300), '\0');
    write_bytes(folder_ / name, {bytes.begin(), bytes.end()});
    try {
      read(folder_ / name);
      ADD_FAILURE() << name << " was read";
    } catch (const Error& e) {
      return e.message();
    }
    return {};
  }
};

std::string tiff(const std::vector<uint16_t>& tags) {
  std::string out("II*\0\x08\0\0\0", 8);
  out += {char(tags.size()), '\0'};
  for (const uint16_t tag : tags) out += {char(tag & 255), char(tag >> 8), 4, 0, 1, 0, 0, 0, 0, 0, 0, 0};
  return out;
}

std::string box(const std::string& brand) {
  return std::string(
             "\0\0\0\x18"
             "ftyp",
             8) +
         brand + std::string(4, '\0');
}

TEST_F(FileKindTest, Pictures) {
  const auto read = [](const fs::path& path) { read_image(path); };
  struct Case {
    std::string bytes;
    const char *kind, *way_out;
  };
  for (const Case& c :
       {Case{box("heic"), "HEIC", "PNG or JPEG"},
        {box("mif1"), "HEIC or AVIF", "PNG or JPEG"},
        {box("avif"), "AVIF", "PNG or JPEG"},
        {box("avis"), "animated AVIF", "PNG or JPEG"},
        {box("crx "), "CR3", "export it as PNG or JPEG"},
        {box("isom"), "mp4 or mov video", "save one of its pictures"},
        {std::string("\0\0\0\x0cJXL \r\n\x87\n", 12), "JPEG XL", "PNG or JPEG"},
        {"\xff\x0a\x01", "JPEG XL", "PNG or JPEG"},
        {std::string("\0\0\0\x0cjP  \r\n\x87\n", 12), "JPEG 2000", "PNG or JPEG"},
        {std::string("II*\0\x10\0\0\0CR\x02\0", 12), "CR2", "export"},
        {tiff({0x100, 0xc612}), "DNG", "export"},
        {tiff({0x10f, 0x14a}), "NEF", "export"},
        {tiff({0x100, 0x10f}), "TIFF", "PNG or JPEG"},
        {"FUJIFILMCCD-RAW 0201", "RAF", "export"},
        {"8BPS", "Photoshop", "export"},
        {"BM6", "BMP", "PNG or JPEG"},
        {"%PDF-1.7", "PDF", "render"},
        {"<?xml version=\"1.0\"?>\n<!-- drawn -->\n<svg xmlns=\"http://www.w3.org/2000/svg\">", "SVG",
         "render"},
        {"\xef\xbb\xbf<!DOCTYPE html>\n<html><body><svg/></body></html>", "web page", "download"},
        {"\n <HTML lang=de>", "web page", "download"},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:", "Git LFS pointer", "git lfs pull"},
        {"PK\3\4", "zip", "unpack"},
        {"fLaC", "a flac sound", ""},
        {"hello", "another kind of file", ""}}) {
    const std::string said = message("photo.png", c.bytes, read);
    EXPECT_THAT(said, AllOf(HasSubstr("photo.png: expected a PNG, JPEG, WebP or GIF picture, got"),
                            HasSubstr(c.kind), HasSubstr(c.way_out)));
  }
}

// The same fault has the same code, whatever the file was given as.
TEST_F(FileKindTest, AFileOfAnotherKindIsCorrupt) {
  std::ofstream(folder_ / "a.mid") << "MThd and no picture, sound or film";
  const auto code = [&](auto read) {
    try {
      read(folder_ / "a.mid");
    } catch (const Error& e) {
      return e.code();
    }
    return ErrorCode::internal;
  };
  EXPECT_EQ(code([](const fs::path& path) { read_image(path); }), ErrorCode::corrupt);
  EXPECT_EQ(code([](const fs::path& path) { read_video(path); }), ErrorCode::corrupt);
  EXPECT_EQ(code([](const fs::path& path) { read_sound(path); }), ErrorCode::corrupt);
}

TEST_F(FileKindTest, SoundsAndVideos) {
  const auto sound = [](const fs::path& path) { read_sound(path); };
  const auto video = [](const fs::path& path) { read_video(path); };
  EXPECT_THAT(message("a.wav", "#!AMR\n", sound),
              AllOf(HasSubstr("expected a sound"), HasSubstr("AMR"), HasSubstr("wav or mp3")));
  EXPECT_THAT(message("b.mp3", "<!doctype html>", sound),
              AllOf(HasSubstr("web page"), HasSubstr("download")));
  EXPECT_THAT(message("c.mp4", "version https://git-lfs.github.com/spec/v1", video),
              AllOf(HasSubstr("expected a video"), HasSubstr("Git LFS")));
  EXPECT_THAT(message("d.mp4", "FLV\1", video), AllOf(HasSubstr("Flash"), HasSubstr("convert it to mp4")));
  EXPECT_THAT(message("e.mp4", "plain words", video), HasSubstr("or it is damaged"));
}

}  // namespace
}  // namespace tachy
