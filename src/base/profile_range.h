// Time ranges named after the modules of a model, to show where a generation's seconds go.
//
// Code marks a range by a ProfileRange on the stack; without a Profiler that costs one comparison with null.
// Within a thread, ranges nest by time. HostProfiler reads the clock (base/profiler.h). A device backend
// implements the same two calls: begin() and end() record an event on its stream, and their times are read
// when somebody asks for the events.
//
// This is not part of profiler.h because tensor/stream.h, and so every kernel's file, includes it, and nvcc
// reads headers three times.
#pragma once

#include <cstdint>

namespace tachy {

// The kind of work in a range, by which the summary groups ranges.
enum class ProfileKind {
  group,
  attention,
  norm,
  linear,
  convolution,
  cache,
  elementwise,
  load,
  output,
  other
};
const char* profile_kind_name(ProfileKind kind);

class Profiler {
 public:
  virtual ~Profiler() = default;
  // `name` is a literal; `index` tells repeated ranges apart (block 3), or is -1. Any thread may call this.
  virtual uint64_t begin(const char* name, ProfileKind kind, int64_t index) = 0;
  virtual void end(uint64_t token) = 0;
  // Says whether recorded steps may be replayed while this profiler watches. It is not told of the ranges
  // inside them.
  virtual bool keeps_graphs() const { return false; }
};

// Says whether the work of each range has to be queued inside that range.
inline bool forbids_graphs(const Profiler* profiler) { return profiler && !profiler->keeps_graphs(); }

class ProfileRange {
 public:
  explicit ProfileRange(Profiler* profiler) : profiler_(profiler) {}
  ProfileRange(Profiler* profiler, const char* name, ProfileKind kind, int64_t index = -1)
      : profiler_(profiler) {
    next(name, kind, index);
  }
  ~ProfileRange() { done(); }
  ProfileRange(const ProfileRange&) = delete;
  ProfileRange& operator=(const ProfileRange&) = delete;

  // Ends the current range, if any, and begins another.
  void next(const char* name, ProfileKind kind, int64_t index = -1) {
    if (!profiler_) return;
    done();
    token_ = profiler_->begin(name, kind, index);
    open_ = true;
  }
  void done() {
    if (open_) profiler_->end(token_);
    open_ = false;
  }

 private:
  Profiler* profiler_;
  uint64_t token_ = 0;
  bool open_ = false;
};

}  // namespace tachy
