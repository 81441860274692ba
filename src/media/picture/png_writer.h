// Writes one picture per frame, or a single picture. Private to src/media.
#pragma once

#include <optional>
#include <vector>

#include "media/files.h"
#include "media/name_pattern.h"
#include "media/picture/png.h"
#include "media/video/video_writer.h"

namespace tachy {

class PngWriter final : public VideoWriter {
 public:
  // Without a pattern, it writes a single picture named `path`.
  PngWriter(std::filesystem::path path, int width, int height, VideoOptions options,
            std::optional<NamePattern> pattern);
  ~PngWriter() override;

 protected:
  std::unique_ptr<Ready> prepare_frame(RgbView frame) override;
  void write_frame(Ready& frame) override;
  void finish_file() override;

 private:
  struct Encoded final : Ready {
    std::vector<uint8_t> png;
    size_t bytes() const override { return png.size(); }
  };
  std::filesystem::path name_of(int64_t index) const { return pattern_ ? pattern_->name(index) : path_; }
  void make_folder();

  std::optional<NamePattern> pattern_;
  std::vector<PartFile> parts_;
  bool made_folder_ = false, published_ = false;
};

}  // namespace tachy
