// The finished windows of a talking photo, for a run that resumes: their frames, uncompressed, in one file
// for each window (0001.frames, 0002.frames …) in OUTPUT.windows. An interrupted encoder cannot continue; a
// run that resumes encodes these frames again and then its own, and its file is that of a run that was never
// interrupted.
//
// Files are synced and renamed before a state mentions them (state_file.h). So whenever a process dies, all
// files that the last state mentions are complete. Frames are written as they come and are never held in
// memory.
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

  // list() describes the windows for a state; take() checks such a list against the files, and throws with
  // the file and the reason if they differ.
  nlohmann::json list() const;
  void take(const nlohmann::json& list, int64_t windows, int64_t frames);
  // Hands out the frames of all windows in order.
  void replay(int width, int height, const std::function<void(RgbView)>& frame) const;

  // Returns a file that has a window's name but is not one; "" if there is none.
  std::filesystem::path others() const;

  void frame(RgbView frame);  // a frame of the current window
  // The current window has no more frames. This may run in another thread, and goes on even if the run is stopped.
  void complete();
  void give_up();  // drops the current window
  void remove();   // removes all windows, also those that no state mentions

 private:
  std::filesystem::path file(size_t window) const;

  std::filesystem::path folder_;
  const std::atomic<bool>* cancel_;
  std::vector<FramesFile> finished_;
  std::unique_ptr<BackgroundWriter> writer_;  // writes the current window
  const FramesWriter* made_ = nullptr;        // owned by writer_
};

}  // namespace tachy::jobs
