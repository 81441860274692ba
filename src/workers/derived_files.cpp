#include "workers/derived_files.h"

#include "media/files.h"
#include "media/video/stills.h"
#include "media/video/video_writer.h"

namespace tachy::workers {
namespace {

void write(const std::filesystem::path& path, std::span<const uint8_t> bytes) {
  PartFile file(path);
  file.write(bytes);
  file.publish();
  sync_folder(folder_of(path));
}

}  // namespace

void make_thumbnail(const queue::JobFolder& folder) {
  write(folder.thumbnail(), thumbnail_of(folder.video()));
}

void make_spritesheet(const queue::JobFolder& folder) {
  write(folder.spritesheet(), spritesheet_of(folder.video()));
}

void write_frame(const std::filesystem::path& video, int64_t number, const std::filesystem::path& picture,
                 CancelFlag cancel) {
  const RgbFrame frame = frame_of_video(video, number, cancel);
  write_png(picture, frame.view());
}

}  // namespace tachy::workers
