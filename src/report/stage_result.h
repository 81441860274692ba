// Tells how a stage runs a model, and where the stage's result is made.
#pragma once

#include "base/field.h"
#include "catalog/model_bundle.h"
#include "nn/params.h"
#include "report/stage_io.h"
#include "session/single_run.h"
#include "tensor/transfer.h"

namespace tachy {

inline SingleRun stage_run(const StageRequest& request) {
  return {request.threads, request.device, request.level, request.dtype, request.cancel};
}

// Takes the part by take(model) if the model is already open; otherwise opens it by open(path) at `model`.
template <class Files, class Open, class Take>
Files part_of(const StageRequest& request, const Open& open, const Take& take) {
  if (!request.opened) return naming("`model`", [&] { return open(request.model); });
  Files files = take(*request.opened);
  check(files.source != nullptr, ErrorCode::not_found, "stage {}: the model has no such part", request.name);
  return files;
}

// Returns a host tensor as one where the stream computes.
inline Tensor where_it_computes(const Tensor& host, nn::ParamStore& store) {
  if (!store.on_gpu() || !host.defined()) return host;
  const Tensor t = store.allocate(host.dtype, host.shape());
  upload(host.data, t, store.stream());
  return t;
}

// A result that is made where the stream computes, and fetched to the host tensor that is written to the
// file.
class StageResult {
 public:
  StageResult(const Tensor& host, nn::ParamStore& store)
      : host_(host), made_(store.on_gpu() ? store.allocate(host.dtype, host.shape()) : host) {}
  const Tensor& tensor() const { return made_; }
  void fetch(const Stream& stream) const {
    if (stream.gpu) download(made_, host_.data, stream);
  }

 private:
  Tensor host_, made_;
};

}  // namespace tachy
