// The plan of a conversion, made before anything is written: the files and their layouts, and how each tensor
// is made.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "catalog/model_bundle.h"
#include "convert/convert.h"
#include "weights/file_layout.h"

namespace tachy {

enum class Making { copy, values, e4m3, int8 };  // `values` are rounded to the stored tensor's type

struct ConvertJob {
  TensorSource::Entry entry;
  Making making = Making::copy;
  size_t tensor = 0;  // index in the file's list
  size_t scale = 0;   // for e4m3 and int8: the tensor for the scales
};

struct ConvertFile {
  std::filesystem::path path;  // inside the output; empty if the output is this file
  std::vector<StoredTensor> tensors;
  std::vector<ConvertJob> jobs;  // a tensor without a job consists of zeros
  FileLayout layout;
};

struct ConvertPlan {
  std::vector<ConvertFile> files;
  std::vector<std::pair<std::filesystem::path, std::string>> texts;             // small files
  std::vector<std::pair<std::filesystem::path, std::filesystem::path>> copies;  // from, to
  std::vector<std::shared_ptr<TensorSource>> sources;                           // keep the mappings
  std::vector<std::string> notes;
  uint64_t bytes() const;
};

// Parses `to`. Throws invalid_argument with the list of forms.
struct ConvertForm {
  enum class Kind { diffusers, single, fp8, int8, gguf };
  Kind kind = Kind::diffusers;
  const GgufType* type = nullptr;
};
ConvertForm parse_form(const std::string& to);

// Opens the parts for a folder. If only a transformer was given, other parts may be missing, and the notes
// say so.
ModelBundle open_model_for(const std::filesystem::path& in, const PartPaths& parts,
                           std::vector<std::string>& notes);

ConvertPlan plan_file(const std::filesystem::path& in, const ConvertForm& form, const std::string& part);
ConvertPlan plan_folder(const std::filesystem::path& in, const PartPaths& parts, uint64_t max_shard_bytes);

// Returns the entry with the shape that models read, because GGUF tools drop leading dimensions of 1. Throws
// unsupported for a tensor that cannot be read.
TensorSource::Entry restored(const TensorSource& source, const TensorSource::Entry& entry);

// Returns the dtype of a tensor that is not newly quantised: bfloat16 if it is quantised now, float32 for
// float64, otherwise its own.
DType kept_dtype(const TensorSource::Entry& entry);

// Says whether an unreadable tensor is no weight and may be left out; `notes` then mentions it.
bool is_left_out(const TensorSource::Entry& entry, std::vector<std::string>& notes);

// Returns the kinds of quantised weights, such as "q4_k, q6_k", or "".
std::string encodings_of(const TensorSource& source);

}  // namespace tachy
