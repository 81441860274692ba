#include "api/convert.h"

#include "convert/convert.h"

namespace tachy {

ConvertedModel convert(const Conversion& what) {
  ConvertReport report = convert_model(what.model, what.output, what.parts,
                                       {.to = what.to,
                                        .part = what.part,
                                        .overwrite = what.overwrite,
                                        .max_shard_bytes = what.max_shard_bytes,
                                        .threads = what.threads,
                                        .cancel = what.cancel,
                                        .progress = what.progress});
  return {std::move(report.output), report.bytes,           report.tensors, std::move(report.files),
          std::move(report.dtypes), std::move(report.notes)};
}

}  // namespace tachy
