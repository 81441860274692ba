#include "web_api/picture_of_video.h"

#include <fmt/format.h>

#include "jobs/settings.h"
#include "media/video/stills.h"
#include "media/video/video_writer.h"
#include "queue/job_folder.h"

namespace tachy::web_api {

std::shared_ptr<http::SpooledFile> picture_of(const RgbFrame& frame, const std::string& name,
                                              const std::filesystem::path& spool) {
  auto file = std::make_shared<http::SpooledFile>(spool / ("picture-" + queue::new_job_id() + ".png"), name,
                                                  "image/png");
  write_png(file->path(), frame.view());
  std::error_code ignored;
  file->bytes = std::filesystem::file_size(file->path(), ignored);
  file->sha256 = jobs::sha256_of(file->path().string(), "input_reference");
  return file;
}

std::shared_ptr<http::SpooledFile> picture_of_video(const std::filesystem::path& video, int64_t number,
                                                    const std::filesystem::path& spool) {
  const std::string name = number < 0 ? "last-picture.png" : fmt::format("frame-{}.png", number);
  return picture_of(frame_of_video(video, number), name, spool);
}

}  // namespace tachy::web_api
