// Pictures are compared with what Pillow reads and resizes (tests/golden/media/make.py); hostile files are
// refused.
#include <algorithm>
#include <cstring>

#include "media/metadata.h"
#include "media/picture/image_reader.h"
#include "media_testing.h"

namespace tachy {
namespace {
using namespace tachy::testing;

class ImageTest : public MediaTest {};

TEST_F(ImageTest, LosslessEqualsPillow) {
  for (const char* name :
       {"source.png", "gray.png", "palette.png", "alpha.png", "bits1.png", "lossless.webp"}) {
    RgbFrame image = read_image(golden(name));
    EXPECT_EQ(image.width, 48) << name;
    EXPECT_EQ(image.height, 33) << name;
    EXPECT_EQ(image.rgb, bytes_of(golden(fs::path(name).stem().string() + ".rgb"))) << name;
  }
}

TEST_F(ImageTest, LossyIsCloseToPillow) {
  // Both decoders read the same coefficients; they differ in the rounding of the inverse transform, of the
  // enlarged chroma and of the colours.
  struct Case {
    const char* name;
    double db;
  };
  for (auto [name, db] : {Case{"photo444.jpg", 48}, Case{"photogray.jpg", 48}, Case{"progressive.jpg", 48},
                          Case{"cmyk.jpg", 45}, Case{"photo420.jpg", 45}, Case{"lossy.webp", 45}}) {
    double got =
        psnr(read_image(golden(name)).rgb, bytes_of(golden(fs::path(name).stem().string() + ".rgb")));
    EXPECT_GT(got, db) << name;
    RecordProperty(name, std::to_string(got));
  }
}

TEST_F(ImageTest, ExifOrientation) {
  for (int orientation = 2; orientation <= 8; ++orientation) {
    std::string stem = "turned" + std::to_string(orientation);
    RgbFrame image = read_image(golden(stem + ".jpg"));
    ImageSize size = read_image_size(golden(stem + ".jpg"));
    EXPECT_EQ(image.width, orientation >= 5 ? 33 : 48) << stem;
    EXPECT_EQ(size.width, image.width) << stem;
    EXPECT_EQ(size.height, image.height) << stem;
    EXPECT_GT(psnr(image.rgb, bytes_of(golden(stem + ".rgb"))), 45) << stem;
  }
}

TEST_F(ImageTest, ResizeEqualsPillow) {
  RgbFrame source = read_image(golden("source.png"));
  struct Size {
    int w, h;
  };
  for (auto [w, h] : {Size{24, 16}, Size{17, 40}, Size{96, 66}, Size{100, 20}, Size{7, 5}, Size{40, 3}}) {
    RgbFrame out = resize(source.view(), w, h);
    auto want = bytes_of(golden("resize_" + std::to_string(w) + "x" + std::to_string(h) + ".rgb"));
    EXPECT_EQ(max_difference(out.rgb, want), 0) << w << "x" << h;
  }
  EXPECT_EQ(resize(source.view(), 48, 33).rgb, source.rgb);
  EXPECT_THROW(resize(source.view(), 0, 10), Error);
  EXPECT_THROW(resize(source.view(), 20000, 10), Error);
}

TEST_F(ImageTest, ResizeCropEqualsDiffusers) {
  RgbFrame source = read_image(golden("source.png"));
  struct Size {
    int w, h;
  };
  for (auto [w, h] : {Size{24, 24}, Size{100, 20}, Size{7, 31}, Size{48, 33}}) {
    RgbFrame out = resize_crop(source.view(), w, h);
    auto want = bytes_of(golden("crop_" + std::to_string(w) + "x" + std::to_string(h) + ".rgb"));
    EXPECT_EQ(max_difference(out.rgb, want), 0) << w << "x" << h;
  }
  EXPECT_THROW(resize_crop(source.view(), 0, 10), Error);
  RgbFrame thin(16384, 1);  // to cover 16x704 this picture would have to grow to eleven million columns
  EXPECT_THROW(resize_crop(thin.view(), 16, 704), Error);
}

TEST_F(ImageTest, ForeignComment) { EXPECT_EQ(read_comment(golden("itxt.png")), "größer ✓"); }

TEST_F(ImageTest, TruncatedAnywhereIsAnError) {
  for (const char* name : {"source.png", "photo444.jpg", "progressive.jpg", "lossless.webp", "lossy.webp"}) {
    auto whole = bytes_of(golden(name));
    for (size_t keep = 0; keep < whole.size(); keep += 1 + whole.size() / 60) {
      fs::path path = folder_ / name;
      write_bytes(path, {whole.begin(), whole.begin() + ptrdiff_t(keep)});
      try {
        read_image(path);
        ADD_FAILURE() << name << " cut at byte " << keep << " of " << whole.size() << " was accepted";
      } catch (const Error& e) {
        EXPECT_TRUE(e.code() == ErrorCode::corrupt || e.code() == ErrorCode::unsupported) << e.what();
        EXPECT_NE(e.message().find(path.string()), std::string::npos) << e.what();
      }
    }
  }
}

TEST_F(ImageTest, DamagedPngIsAnError) {
  auto whole = bytes_of(golden("source.png"));
  for (size_t at = 0; at < whole.size(); at += 37) {
    auto bad = whole;
    bad[at] ^= 0x55;
    write_bytes(folder_ / "bad.png", bad);
    EXPECT_THROW(read_image(folder_ / "bad.png"), Error) << "byte " << at;
  }
}

TEST_F(ImageTest, DamagedLossyNeverCrashes) {
  for (const char* name : {"photo444.jpg", "turned6.jpg", "lossy.webp", "lossless.webp"}) {
    auto whole = bytes_of(golden(name));
    for (size_t at = 0; at < whole.size(); at += 5) {
      auto bad = whole;
      bad[at] ^= uint8_t(1 + at % 255);
      write_bytes(folder_ / name, bad);
      try {
        RgbFrame image = read_image(folder_ / name);
        EXPECT_EQ(image.rgb.size(), size_t(image.width) * image.height * 3);
      } catch (const Error&) {
      }
    }
  }
}

TEST_F(ImageTest, ShortPixelDataIsAnError) {
  expect_error(ErrorCode::corrupt, {"short_data.png"}, [] { read_image(golden("short_data.png")); });
}

TEST_F(ImageTest, HugeSizesAreRefusedBeforeAllocating) {
  // The file has only an IHDR; its checksum is also wrong, which read_image may find first.
  struct Case {
    const char* name;
    std::vector<uint8_t> size_and_rest;  // width, height, depth 8, colour 2, 0, 0, 0
  };
  std::vector<uint8_t> head = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I', 'H', 'D', 'R'};
  for (const Case& c : {Case{"wide.png", {0, 1, 0x86, 0xa0, 0, 1, 0x86, 0xa0, 8, 2, 0, 0, 0}},
                        Case{"max.png", {0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 8, 2, 0, 0, 0}},
                        Case{"minus.png", {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 8, 2, 0, 0, 0}},
                        Case{"area.png", {0, 0, 0x40, 0, 0, 0, 0x40, 0, 8, 2, 0, 0, 0}},
                        Case{"zero.png", {0, 0, 0, 0, 0, 0, 0, 9, 8, 2, 0, 0, 0}}}) {
    auto file = head;
    file.insert(file.end(), c.size_and_rest.begin(), c.size_and_rest.end());
    file.insert(file.end(), 4, 0);
    write_bytes(folder_ / c.name, file);
    expect_error(ErrorCode::corrupt, {c.name, "pixels"}, [&] { read_image_size(folder_ / c.name); });
    expect_error(ErrorCode::corrupt, {c.name}, [&] { read_image(folder_ / c.name); });
  }
}

// A text chunk claims 1.8 GB in a file of 240 bytes: no memory is allocated for it.
TEST_F(ImageTest, LyingChunksTakeNoMemory) {
  const auto most_kib = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const long before = most_kib();
  const fs::path path = fs::path(TACHY_SOURCE_DIR) / "tests/fuzz/corpus/image/long-text.png";
  expect_error(ErrorCode::corrupt, {"long-text.png", "claims 1795162224 bytes"}, [&] { read_image(path); });
  expect_error(ErrorCode::corrupt, {"long-text.png", "claims 1795162224 bytes"}, [&] { read_comment(path); });
  EXPECT_LT(most_kib() - before, 256 << 10) << "KiB";
}

TEST_F(ImageTest, OtherFiles) {
  expect_error(ErrorCode::not_found, {"none.png"}, [&] { read_image(folder_ / "none.png"); });
  expect_error(ErrorCode::io, {}, [&] { read_image(folder_); });
  write_bytes(folder_ / "text.png", {'h', 'e', 'l', 'l', 'o'});
  expect_error(ErrorCode::corrupt, {"PNG, JPEG, WebP or GIF"}, [&] { read_image(folder_ / "text.png"); });
  write_bytes(folder_ / "empty.jpg", {});
  expect_error(ErrorCode::corrupt, {"empty"}, [&] { read_image(folder_ / "empty.jpg"); });
}

}  // namespace
}  // namespace tachy
