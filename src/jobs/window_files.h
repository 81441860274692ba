// The finished windows of a talking photo, for a run that goes on: their frames as they are, a file each (0001.frames, 0002.frames …) in
// OUTPUT.windows. An encoder that was interrupted cannot go on; a run that does encodes these again and then its own, and its
// file is that of a run that was never interrupted.
//
// Files are synced and renamed before a state says that they are there (state_file.h), so whenever a process dies, what the
// last state speaks of is whole. Frames are written as they come, and never held.
#pragma once

#include <atomic>
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "media/video/background_writer.h"
#include "media/video/frames_file.h"

namespace tachy::jobs {

class WindowFiles {
 public:
  WindowFiles(std::filesystem::path folder, const std::atomic<bool>* cancel)
      : folder_(std::move(folder)), cancel_(cancel) {}

  // What a state says of them, and of whether it is true here; throws with the file and the reason where it is not.
  nlohmann::json list() const;
  void take(const nlohmann::json& list, int64_t windows, int64_t frames);
  // All their frames in order.
  void replay(int width, int height, const std::function<void(RgbView)>& frame) const;

  // A file at the name of a window that is none; "": there is no such.
  std::filesystem::path others() const;

  void frame(RgbView frame);  // of the window under way
  void complete();            // which has no more
  void give_up();             // it is not kept
  void remove();              // all there are, also those that nobody speaks of

 private:
  std::filesystem::path file(size_t window) const;

  std::filesystem::path folder_;
  const std::atomic<bool>* cancel_;
  std::vector<FramesFile> finished_;
  std::unique_ptr<BackgroundWriter> writer_;  // of the window under way
  const FramesWriter* made_ = nullptr;        // it owns this
};

}  // namespace tachy::jobs
