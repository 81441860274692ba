// `verify_upload` checks that weights on a device equal those in their file. An UploadCheck notes every
// tensor that a ParamStore uploads while the check exists. It then compares two checksums: one is computed on
// the device, the other on the host from the file's values, converted again. For blocks that pass through
// slots the host's copy is checked, and runtime/block_stream.h compares each block with it on arrival.
// Weights that are sent for a single product (nn/weight_visiting.cpp) are compared each time while they are
// on the device.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "tensor/streaming_memory.h"
#include "weights/tensor_source.h"

namespace tachy::nn {

class UploadCheck {
 public:
  UploadCheck(StreamingMemory& memory, ThreadPool& pool);
  ~UploadCheck();
  UploadCheck(const UploadCheck&) = delete;
  UploadCheck& operator=(const UploadCheck&) = delete;

  void begin(std::string part);  // later uploads belong to `part`; earlier ones with this name are forgotten

  // Throws `device`, naming the tensor and how it differs. Returns the number of tensors that were compared;
  // it skips tensors that loading has computed and `file` does not contain as they are. `when` is, for
  // example, "after loading".
  int64_t verify(const std::string& part, const TensorSource& file, const std::string& when);

 private:
  using Upload = StreamingMemory::Uploaded;
  uint64_t on_device(const Upload& upload);
  uint64_t in_file(const Upload& upload);
  [[noreturn]] void report(const Upload& upload, const std::string& what);

  StreamingMemory& memory_;
  ThreadPool& pool_;
  std::string part_;
  std::map<std::string, std::vector<Upload>> parts_;
  Buffer values_;
  std::mutex visits_;
};

}  // namespace tachy::nn
