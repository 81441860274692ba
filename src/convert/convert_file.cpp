// Writes the transformer as one file. Each form quantises these tensors, and keeps the others as follows:
//
//   fp8, int8       the matrices of the blocks; all others as they are
//   gguf, quantised the same; vectors, small tensors, modulation and kernels in F32; the embedders and the
//                   head in BF16 if they are that, otherwise F16, like ComfyUI-GGUF's converter
//   gguf, plain     everything but those that are F32 above
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "catalog/diffusers_config.h"
#include "convert/convert_plan.h"
#include "models/wan/infer_config.h"
#include "weights/entry_values.h"
#include "weights/gguf/gguf_encode.h"
#include "weights/names/rename.h"
#include "weights/quote.h"

namespace tachy {
namespace {

using Entry = TensorSource::Entry;
using Kind = ConvertForm::Kind;

constexpr const char* kComfyPrefix = "model.diffusion_model.";
constexpr int64_t kSmall = 1024;  // in values

bool is_block_matrix(const Entry& entry) {
  return entry.name.starts_with("blocks.") && entry.name.ends_with(".weight") && entry.dims.size() == 2 &&
         has_values(entry);
}

class FilePlanner {
 public:
  FilePlanner(const ConvertForm& form, const TensorSource& source) : form_(form), source_(source) {}

  ConvertFile plan(const std::string& config) {
    for (const Entry& entry : source_.entries()) {
      if (is_left_out(entry, notes_)) continue;
      const Entry whole = restored(source_, entry);
      form_.type ? add_gguf(whole) : add(whole);
    }
    if (form_.kind == Kind::fp8)  // the two values in it tell ComfyUI not to multiply in 8 bits
      file_.tensors.push_back(
          {.name = std::string(kComfyPrefix) + "scaled_fp8", .dims = {2}, .dtype = DType::f8_e4m3});
    if (form_.type)
      file_.layout = gguf_layout(file_.tensors, keys(config));
    else
      file_.layout = safetensors_layout(file_.tensors, {{"format", "pt"}, {"config", config}});
    return std::move(file_);
  }
  std::vector<std::string> notes() const { return notes_; }

 private:
  size_t push(StoredTensor tensor) {
    file_.tensors.push_back(std::move(tensor));
    return file_.tensors.size() - 1;
  }

  void add(const Entry& entry) {
    const std::string name = (form_.kind == Kind::int8 ? "" : kComfyPrefix) + dit_to_original(entry.name);
    const std::string layer = name.substr(0, name.rfind('.'));
    if (form_.kind == Kind::single || !is_block_matrix(entry)) {
      const Making making = entry.derived ? Making::values : Making::copy;
      const size_t at = push({.name = name, .dims = entry.dims, .dtype = kept_dtype(entry)});
      file_.jobs.push_back({.entry = entry, .making = making, .tensor = at});
    } else if (form_.kind == Kind::fp8) {
      const size_t at = push({.name = name, .dims = entry.dims, .dtype = DType::f8_e4m3});
      const size_t scale = push({.name = layer + ".scale_weight", .dims = {}, .dtype = DType::f32});
      file_.jobs.push_back({.entry = entry, .making = Making::e4m3, .tensor = at, .scale = scale});
    } else {
      const size_t at = push({.name = name, .dims = entry.dims, .dtype = DType::i8});
      const size_t scale =
          push({.name = layer + ".weight_scale", .dims = {entry.dims[0], 1}, .dtype = DType::f32});
      file_.jobs.push_back({.entry = entry, .making = Making::int8, .tensor = at, .scale = scale});
    }
  }

  void add_gguf(const Entry& entry) {
    check(has_values(entry), ErrorCode::unsupported, "{}: tensor {} is {}, which a GGUF file cannot hold",
          source_.file_of(entry), in_quotes(entry.name_in_file), dtype_name(entry.dtype));
    const GgufType* type = type_of(entry);
    const bool same = !entry.derived && type->plain == entry.dtype;
    const size_t at = push({.name = dit_to_original(entry.name), .dims = entry.dims, .type = type});
    file_.jobs.push_back({.entry = entry, .making = same ? Making::copy : Making::values, .tensor = at});
  }

  const GgufType* type_of(const Entry& entry) {
    const bool vector = entry.dims.size() == 1 || value_count(entry) <= kSmall;
    if (vector || entry.dims.size() > 4 || entry.name.ends_with("scale_shift_table"))
      return find_gguf_type("f32");
    if (form_.type->plain) return form_.type;
    const GgufType* kept = find_gguf_type(kept_dtype(entry) == DType::bf16 ? "bf16" : "f16");
    if (!is_block_matrix(entry)) return kept;
    if (entry.dims.back() % form_.type->block_values == 0) return form_.type;
    if (!std::exchange(rows_noted_, true))
      notes_.push_back(
          fmt::format("rows that are not whole blocks of {} values stay {}: {} of {}, and perhaps others",
                      form_.type->block_values, kept->name, entry.name, entry.dims.back()));
    return kept;
  }

  std::vector<GgufKey> keys(const std::string& config) const {
    static const std::map<std::string_view, uint32_t> file_types = {{"f32", 0},  {"f16", 1},  {"q4_0", 2},
                                                                    {"q4_1", 3}, {"q8_0", 7}, {"q5_0", 8},
                                                                    {"q5_1", 9}, {"bf16", 32}};
    return {{"general.architecture", std::string("wan")},
            {"general.quantization_version", uint32_t{2}},
            {"general.file_type", file_types.at(form_.type->name)},
            {"config", config}};
  }

  const ConvertForm& form_;
  const TensorSource& source_;
  ConvertFile file_;
  std::vector<std::string> notes_;
  bool rows_noted_ = false;
};

ComponentFiles find_transformer(const std::filesystem::path& in, const std::string& part) {
  std::error_code ignored;
  if (std::filesystem::is_directory(in, ignored) && !is_component_folder(in)) {
    const ModelFiles files = open_model(in);
    require(!files.transformer_2.present() || !part.empty(),
            "`part`: {} has two transformers: say transformer (high noise) or transformer_2 (low noise)",
            in.string());
    if (part == "transformer_2") {
      check(files.transformer_2.present(), ErrorCode::not_found,
            "`part`: {} has only one transformer, and no transformer_2", in.string());
      return files.transformer_2;
    }
    return files.transformer;
  }
  require(part != "transformer_2", "`part`: {} is one part by itself; name the other one's file or folder",
          in.string());
  return transformer_at(in);
}

// Adds notes about a source that is quantised, or already has the requested form.
void note_source(const std::filesystem::path& in, const ConvertForm& form, const TensorSource& source,
                 std::vector<std::string>& notes) {
  static const std::map<Kind, std::string_view> marks = {{Kind::fp8, "f8_e4m3 with scales"},
                                                         {Kind::int8, "i8 with scales"}};
  const std::string encodings = encodings_of(source);
  const auto mark = marks.find(form.kind);
  const std::string_view same = mark != marks.end() ? mark->second : form.type ? form.type->name : "";
  if (!encodings.empty() && !same.empty() && encodings.find(same) != std::string::npos)
    notes.push_back(fmt::format("{} is {} already; its values are rounded again", in.string(), encodings));
  else if (!encodings.empty())
    notes.push_back(fmt::format(
        "the weights of {} are {}: they are decoded first, and the output is made from the decoded values",
        in.string(), encodings));
  else if (form.kind == Kind::single && !source.entries().empty() &&
           source.entries().front().name_in_file.starts_with(kComfyPrefix))
    notes.push_back(fmt::format("{} is such a file already", in.string()));
}

}  // namespace

ConvertPlan plan_file(const std::filesystem::path& in, const ConvertForm& form, const std::string& part) {
  const ComponentFiles found = find_transformer(in, part);
  const TransformerFiles model = read_transformer(found);
  check(is_wan_transformer(*model.source), ErrorCode::unsupported,
        "{}: this is not a Wan transformer (it has no tensor 'patch_embedding.weight'); other parts can only "
        "be written as folders, with `to` diffusers",
        in.string());
  ConvertPlan plan;
  plan.sources = {model.source};
  FilePlanner planner(form, *model.source);
  plan.files.push_back(planner.plan(transformer_json(found, model.config).dump()));
  plan.notes = planner.notes();
  note_source(in, form, *model.source, plan.notes);
  std::error_code ignored;
  if (std::filesystem::is_directory(in, ignored) && !is_component_folder(in))
    plan.notes.push_back(
        "the transformer alone is written; the text encoder, the VAE and the tokenizer stay where they are");
  return plan;
}

}  // namespace tachy
