// Ends the loop of a job that makes the process crash each time it is run. After a start, each job that was
// under way when the earlier process died is looked at: if it got no further since the last death, that
// counts.
//
// A process that is killed from outside (SIGKILL, a power cut) says nothing about its jobs, but one that the
// system kills for want of memory looks the same. So such deaths count only if the process had time to get
// further, and many of them are needed. A process that crashes by itself (a fault, an abort) leaves word of
// it by removing a file that a killed one leaves behind.
#pragma once

#include <filesystem>

#include "queue/job_folder.h"
#include "queue/job_row.h"

namespace tachy::workers {

class CrashMark {
 public:
  // Makes the file FILES/running. Only one process at a time may have these files.
  explicit CrashMark(const std::filesystem::path& files);
  ~CrashMark();  // removes it
  CrashMark(const CrashMark&) = delete;
  CrashMark& operator=(const CrashMark&) = delete;

  // Tells what the earlier process died of. One that ended as it should left no jobs under way.
  enum class Death { crash, early_kill, kill };
  Death death() const { return death_; }
  void touch() const;  // notes that the process lives; to be called every few seconds

 private:
  std::filesystem::path file_;
  Death death_ = Death::crash;
};

// From now on, a fault or an abort of this process removes its temporary files, and with them the mark,
// before the process ends as it would have. It is for a program's main().
void leave_word_of_crashes();

// Notes that the process died while the job was under way. Says whether that has now happened too often in a
// row without any progress of the job in between.
bool crashed_too_often(const queue::JobRow& row, const queue::JobFolder& folder, CrashMark::Death death);

}  // namespace tachy::workers
