#include "web_api/last_picture.h"

#include "jobs/settings.h"
#include "media/video/stills.h"
#include "media/video/video_writer.h"
#include "queue/job_folder.h"

namespace tachy::web_api {

std::shared_ptr<http::SpooledFile> last_picture(const std::filesystem::path& video,
                                                const std::filesystem::path& spool) {
  const RgbFrame frame = frame_of_video(video, -1);
  auto file = std::make_shared<http::SpooledFile>(spool / ("last-" + queue::new_job_id() + ".png"),
                                                  "last-picture.png", "image/png");
  write_png(file->path(), frame.view());
  std::error_code ignored;
  file->bytes = std::filesystem::file_size(file->path(), ignored);
  file->sha256 = jobs::sha256_of(file->path().string(), "input_reference");
  return file;
}

}  // namespace tachy::web_api
