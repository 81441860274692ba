// Writes a model as a folder in diffusers' layout: the parts that are there, in shards, with their configs.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/disk.h"
#include "base/error.h"
#include "catalog/diffusers_config.h"
#include "catalog/open_tokenizer.h"
#include "convert/convert_plan.h"
#include "text/tokenizer.h"
#include "weights/entry_values.h"
#include "weights/quote.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;
using Entry = TensorSource::Entry;

constexpr const char* kTokenizerFiles[] = {"tokenizer.json", "tokenizer_config.json", "spiece.model",
                                           "special_tokens_map.json", "added_tokens.json"};

// Returns a dtype that diffusers can load: bfloat16 for 8-bit floats and quantised weights, float32 for
// float64.
DType loadable(const Entry& entry) {
  const bool small = entry.dtype == DType::f8_e4m3 || entry.dtype == DType::f8_e5m2;
  return small ? DType::bf16 : entry.dtype == DType::f64 ? DType::f32 : kept_dtype(entry);
}

// Divides a component's tensors into shards of at most `most` bytes; a larger tensor gets its own shard.
class Shards {
 public:
  Shards(ConvertPlan& plan, fs::path folder, std::string stem, uint64_t most)
      : plan_(plan), folder_(std::move(folder)), stem_(std::move(stem)), most_(most) {}

  void add(const Entry& entry) {
    const StoredTensor tensor{.name = entry.name, .dims = entry.dims, .dtype = loadable(entry)};
    const uint64_t bytes = tensor.bytes();
    if (files_.empty() || (bytes_ > 0 && bytes_ + bytes > most_)) files_.emplace_back(), bytes_ = 0;
    ConvertFile& file = files_.back();
    const bool same = !entry.derived && tensor.dtype == entry.dtype;
    file.jobs.push_back(
        {.entry = entry, .making = same ? Making::copy : Making::values, .tensor = file.tensors.size()});
    file.tensors.push_back(tensor);
    bytes_ += bytes, total_ += bytes;
  }

  void finish() {
    nlohmann::json map = nlohmann::json::object();
    for (size_t i = 0; i < files_.size(); ++i) {
      ConvertFile& file = files_[i];
      const std::string name =
          files_.size() == 1 ? stem_ + ".safetensors"
                             : fmt::format("{}-{:05}-of-{:05}.safetensors", stem_, i + 1, files_.size());
      for (const StoredTensor& tensor : file.tensors) map[tensor.name] = name;
      file.path = folder_ / name;
      file.layout = safetensors_layout(file.tensors, {{"format", "pt"}});
      plan_.files.push_back(std::move(file));
    }
    if (files_.size() > 1)
      plan_.texts.emplace_back(
          folder_ / (stem_ + ".safetensors.index.json"),
          nlohmann::json({{"metadata", {{"total_size", total_}}}, {"weight_map", map}}).dump(2) + "\n");
  }

 private:
  ConvertPlan& plan_;
  fs::path folder_;
  std::string stem_;
  uint64_t most_, bytes_ = 0, total_ = 0;
  std::vector<ConvertFile> files_;
};

class FolderPlanner {
 public:
  FolderPlanner(const ModelBundle& model, uint64_t most) : m_(model), most_(most) {}

  ConvertPlan plan() {
    if (m_.transformer) add("transformer", *m_.transformer, transformer_json(m_.files.transformer, m_.dit));
    if (m_.transformer_2)
      add("transformer_2", *m_.transformer_2, transformer_json(m_.files.transformer_2, m_.dit));
    if (m_.vae) add("vae", *m_.vae, vae_json(m_.files.vae, m_.vae_config));
    if (m_.text_encoder) {
      const DType dtype = loadable(*m_.text_encoder->find("shared.weight"));
      add("text_encoder", *m_.text_encoder, text_encoder_json(m_.files.text_encoder, m_.text, dtype),
          "model");
    }
    const bool tokenizer = add_tokenizer();
    if (m_.transformer) {
      text("model_index.json", model_index_json(m_, tokenizer));
      text("scheduler/scheduler_config.json", scheduler_json(m_));
      if (m_.files.generation_config) text("generation_config.json", *m_.files.generation_config);
      add_image_encoder();
    }
    for (const auto& source : {m_.transformer, m_.transformer_2, m_.vae, m_.text_encoder})
      if (source) note(source), plan_.sources.push_back(source);
    return std::move(plan_);
  }

 private:
  void text(const fs::path& path, const nlohmann::json& json) {
    plan_.texts.emplace_back(path, json.dump(2) + "\n");
  }

  void add(const std::string& folder, const TensorSource& source, const nlohmann::json& config,
           const char* stem = "diffusion_pytorch_model") {
    Shards shards(plan_, folder, stem, most_);
    for (const Entry& entry : source.entries())
      if (&entry != carried_tokenizer(source) && !is_left_out(entry, plan_.notes))
        shards.add(restored(source, entry));
    shards.finish();
    text(fs::path(folder) / "config.json", config);
  }

  bool add_tokenizer() {
    const fs::path& from = m_.files.tokenizer;
    const fs::path to = "tokenizer";
    std::error_code ignored;
    if (fs::is_regular_file(from, ignored)) {
      plan_.copies.emplace_back(from, to / (from.extension() == ".json" ? "tokenizer.json" : "spiece.model"));
      return true;
    }
    const size_t before = plan_.copies.size();
    if (!from.empty())
      for (const char* name : kTokenizerFiles)
        if (fs::is_regular_file(from / name, ignored)) plan_.copies.emplace_back(from / name, to / name);
    if (plan_.copies.size() > before) return true;
    const Entry* carried = m_.text_encoder ? carried_tokenizer(*m_.text_encoder) : nullptr;
    if (carried) {
      read_carried_tokenizer(*m_.text_encoder);  // throws if it is no tokenizer
      plan_.texts.emplace_back(to / "spiece.model", std::string(static_cast<const char*>(carried->data),
                                                                static_cast<size_t>(carried->bytes)));
    } else if (m_.text_encoder) {
      plan_.notes.push_back(
          "the tokenizer is left out, since it has no file of its own here; name one with `tokenizer`");
    }
    return carried != nullptr;
  }

  // The folder of a model in diffusers' layout is copied. From other sources only the vision model is
  // written, without a text model in the same file.
  void add_image_encoder() {
    const bool copied = m_.files.image_encoder.weights.parent_path() == m_.files.root / "image_encoder";
    if (m_.image_encoder && !copied) {
      Shards shards(plan_, "image_encoder", "model", most_);
      for (const Entry& entry : m_.image_encoder->entries())
        if (entry.name.starts_with("vision_model.")) shards.add(restored(*m_.image_encoder, entry));
      shards.finish();
      text("image_encoder/config.json", image_encoder_json(m_.files.image_encoder, m_.clip));
      text("image_processor/preprocessor_config.json", image_processor_json(m_.clip_preparation));
      note(m_.image_encoder), plan_.sources.push_back(m_.image_encoder);
      return;
    }
    if (m_.files.layout != ModelFiles::Layout::diffusers) return;
    for (const char* folder : {"image_encoder", "image_processor"}) {
      const fs::path from = m_.files.root / folder;
      std::error_code error, ignored;
      const std::vector<fs::path> files = list_folder(from, error);
      check(!error || error == std::errc::no_such_file_or_directory, ErrorCode::io,
            "{}: cannot list the folder: {}", from.string(), error.message());
      for (const fs::path& file : files)
        if (fs::is_regular_file(file, ignored)) plan_.copies.emplace_back(file, folder / file.filename());
    }
  }

  void note(const std::shared_ptr<TensorSource>& source) {
    if (const std::string encodings = encodings_of(*source); !encodings.empty())
      plan_.notes.push_back(fmt::format("the weights of {} are {}: they are converted to bfloat16",
                                        source->files_text(), encodings));
  }

  const ModelBundle& m_;
  uint64_t most_;
  ConvertPlan plan_;
};

}  // namespace

ConvertPlan plan_folder(const fs::path& in, const PartPaths& parts, uint64_t max_shard_bytes) {
  std::vector<std::string> notes;
  const ModelBundle model = open_model_for(in, parts, notes);
  ConvertPlan plan = FolderPlanner(model, max_shard_bytes).plan();
  plan.notes.insert(plan.notes.begin(), notes.begin(), notes.end());
  if (model.transformer && model.files.layout == ModelFiles::Layout::diffusers && plan.notes.empty())
    plan.notes.push_back(
        fmt::format("{} has diffusers' layout already; the same tensors are written again", in.string()));
  return plan;
}

}  // namespace tachy
