// Conversions of the tiny model are read back: the values are the same, or within the form's rounding, and
// frames of a converted folder are the source's.
#include "convert/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "convert/output_folder.h"
#include "tiny_model.h"
#include "weights/entry_values.h"
#include "weights/output_file.h"
#include "weights/safetensors.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

ConvertReport convert(const fs::path& in, const fs::path& out, const std::string& to, PartPaths parts = {},
                      ConvertOptions options = {}) {
  options.to = to;
  return convert_model(in, out, parts, options);
}

std::vector<float> values_of(const TensorSource::Entry& entry) {
  std::vector<float> out(static_cast<size_t>(value_count(entry)));
  entry_values(entry, 0, out);
  return out;
}

// Returns the largest error of any tensor, relative to its largest value; `quantised` counts derived tensors.
double largest_error(const TensorSource& got, const TensorSource& want, int* quantised = nullptr) {
  EXPECT_EQ(got.entries().size(), want.entries().size());
  double worst = 0;
  for (const auto& entry : want.entries()) {
    const auto* found = got.find(entry.name);
    if (!found) {
      ADD_FAILURE() << entry.name << " is missing";
      continue;
    }
    EXPECT_EQ(found->dims, entry.dims) << entry.name;
    if (quantised) *quantised += found->derived != nullptr;
    const std::vector<float> a = values_of(*found), b = values_of(entry);
    double error = 0, most = 0;
    for (size_t i = 0; i < b.size(); ++i)
      error = std::max<double>(error, std::abs(a[i] - b[i])), most = std::max<double>(most, std::abs(b[i]));
    if (most > 0) worst = std::max(worst, error / most);
  }
  return worst;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> entries_in(const fs::path& folder) {
  std::vector<std::string> out;
  for (const auto& item : fs::directory_iterator(folder)) out.push_back(item.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<uint8_t> frames_of(const fs::path& model) {
  TextToVideo pipeline(ModelBundle::open(model), {.threads = 2});
  return test::run(pipeline, test::short_request()).rgb;
}

// Writes a tiny transformer whose rows are whole blocks of GGUF: 64 channels; its first block has matrices.
fs::path wide_transformer(const fs::path& path, float factor = 1) {
  static std::vector<std::vector<float>> values;
  values.clear();
  std::vector<NamedTensor> tensors;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& dims) {
    int64_t count = 1;
    for (const int64_t extent : dims) count *= extent;
    auto& made = values.emplace_back(static_cast<size_t>(count));
    for (size_t i = 0; i < made.size(); ++i)
      made[i] = factor * std::sin(static_cast<float>(i * 7 + values.size())) * static_cast<float>(i % 5 + 1);
    tensors.push_back({name, Tensor(made.data(), DType::f32, dims)});
  };
  values.reserve(32);
  add("patch_embedding.weight", {64, 16, 1, 2, 2}), add("patch_embedding.bias", {64});
  add("proj_out.weight", {64, 64}), add("scale_shift_table", {1, 2, 64});
  add("condition_embedder.text_embedder.linear_1.weight", {64, 24});
  add("condition_embedder.time_embedder.linear_1.weight", {64, 32});
  for (const char* layer : {"attn1.to_q", "attn1.to_out.0", "attn2.to_k"})
    add(fmt::format("blocks.0.{}.weight", layer), {64, 64});
  add("blocks.0.ffn.net.0.proj.weight", {96, 64}), add("blocks.0.ffn.net.2.weight", {64, 96});
  add("blocks.0.attn1.norm_q.weight", {64}), add("blocks.0.scale_shift_table", {1, 6, 64});
  nlohmann::json config = {{"num_attention_heads", 2},
                           {"attention_head_dim", 32},
                           {"text_dim", 24},
                           {"freq_dim", 32},
                           {"ffn_dim", 96},
                           {"num_layers", 1},
                           {"cross_attn_norm", false}};
  write_safetensors(path, tensors, {{"config", config.dump()}});
  return path;
}

TEST(Convert, DiffusersFolderHasTheSameTensorsAndFrames) {
  const test::ScratchFolder scratch;
  const fs::path out = scratch.path / "model";
  const ConvertReport report = convert(test::model_path(), out, "diffusers");
  EXPECT_THAT(report.notes, testing::ElementsAre(HasSubstr("already")));
  uint64_t bytes = 0;
  for (const auto& item : fs::recursive_directory_iterator(out))
    if (item.is_regular_file()) bytes += item.file_size();
  EXPECT_EQ(report.bytes, bytes);
  EXPECT_EQ(report.files.size(), 11u);
  const ModelBundle a = ModelBundle::open(out), b = ModelBundle::open(test::model_path());
  for (const auto part : {&ModelBundle::transformer, &ModelBundle::vae, &ModelBundle::text_encoder}) {
    EXPECT_EQ(largest_error(*(a.*part), *(b.*part)), 0);
    for (const auto& entry : (b.*part)->entries()) EXPECT_EQ((a.*part)->find(entry.name)->dtype, entry.dtype);
  }
  EXPECT_EQ(a.dit, b.dit);
  EXPECT_EQ(frames_of(out), frames_of(test::model_path()));
  EXPECT_THAT(entries_in(scratch.path), testing::ElementsAre("model"));
}

TEST(Convert, ShardsAreThoseOfTheIndex) {
  const test::ScratchFolder scratch;
  const fs::path out = scratch.path / "model";
  const ConvertReport report = convert(test::model_path(), out, "diffusers", {}, {.max_shard_bytes = 20000});
  EXPECT_THAT(report.files, Contains("transformer/diffusion_pytorch_model.safetensors.index.json"));
  EXPECT_THAT(report.files,
              Contains(testing::StartsWith("transformer/diffusion_pytorch_model-00002-of-0000")));
  int shards = 0;
  for (const auto& item : fs::directory_iterator(out / "transformer")) {
    if (item.path().extension() != ".safetensors") continue;
    ++shards;
    const auto shard = open_weights(item.path());
    uint64_t bytes = 0;
    for (const auto& entry : shard->entries()) bytes += entry.bytes;
    EXPECT_TRUE(bytes <= 20000 || shard->entries().size() == 1) << item.path();
  }
  EXPECT_GT(shards, 2);
  const ModelBundle a = ModelBundle::open(out), b = ModelBundle::open(test::model_path());
  EXPECT_EQ(largest_error(*a.transformer, *b.transformer), 0);
  const auto index = nlohmann::json::parse(
      std::ifstream(out / "transformer/diffusion_pytorch_model.safetensors.index.json"));
  EXPECT_EQ(index["weight_map"].size(), b.transformer->entries().size());
}

TEST(Convert, OriginalLayoutBecomesDiffusers) {
  const test::ScratchFolder scratch;
  const fs::path out = scratch.path / "model";
  convert(test::model_path(true), out, "diffusers");
  const ModelBundle a = ModelBundle::open(out), b = ModelBundle::open(test::model_path(true));
  EXPECT_EQ(a.files.layout, ModelFiles::Layout::diffusers);
  EXPECT_EQ(largest_error(*a.transformer, *b.transformer), 0);
  EXPECT_EQ(largest_error(*a.text_encoder, *b.text_encoder), 0);
  EXPECT_EQ(largest_error(*a.vae, *b.vae), 0);
  WanConfig same = b.dit;
  same.sinusoid = Sinusoid::diffusers;
  EXPECT_EQ(a.dit, same) << "but for the arithmetic of the layout";
  EXPECT_EQ(a.text.d_kv, b.text.d_kv);
  EXPECT_EQ(a.vae_config.latents_mean, b.vae_config.latents_mean);
  EXPECT_EQ(a.family, b.family);
  EXPECT_EQ(*a.defaults.shift, *b.defaults.shift);
}

TEST(Convert, SingleFileHasOriginalNamesAndItsConfig) {
  const test::ScratchFolder scratch;
  const fs::path out = scratch.path / "tiny.safetensors";
  const ConvertReport report = convert(test::model_path(), out, "single");
  EXPECT_EQ(report.bytes, fs::file_size(out));
  EXPECT_THAT(report.notes, Contains(HasSubstr("the transformer alone")));
  const auto file = open_weights(out);
  EXPECT_TRUE(file->has("model.diffusion_model.blocks.0.self_attn.q.weight"));
  for (const auto& entry : file->entries()) EXPECT_TRUE(entry.name.starts_with("model.diffusion_model."));
  const TransformerFiles back = open_transformer(out), from = open_transformer(test::model_path());
  EXPECT_TRUE(back.original);
  EXPECT_EQ(largest_error(*back.source, *from.source), 0);
  EXPECT_EQ(back.config.num_heads, from.config.num_heads) << "which no shape tells";
  const ConvertReport again = convert(out, scratch.path / "again.safetensors", "single");
  EXPECT_THAT(again.notes, Contains(HasSubstr("such a file already")));
  EXPECT_EQ(bytes_of(out), bytes_of(scratch.path / "again.safetensors"));
}

TEST(Convert, QuantisedFormsAreWithinTheirRounding) {
  const test::ScratchFolder scratch;
  const fs::path in = wide_transformer(scratch.path / "in.safetensors");
  const TransformerFiles from = open_transformer(in);
  // For each form the table has the worst error of a value relative to its tensor's largest, or zero, and the
  // number of quantised tensors.
  const std::tuple<const char*, double, int> forms[] = {
      {"fp8", 0.04, 5},        {"int8", 0.004, 5},     {"gguf:Q8_0", 0.006, 5}, {"gguf:Q5_1", 0.04, 5},
      {"gguf:Q5_0", 0.07, 5},  {"gguf:Q4_1", 0.07, 5}, {"gguf:q4_0", 0.14, 5},  {"gguf:BF16", 0.004, 0},
      {"gguf:F16", 0.0005, 0}, {"gguf:F32", 0, 0}};
  for (const auto& [to, bound, count] : forms) {
    const bool gguf = std::string(to).starts_with("gguf");
    const fs::path out = scratch.path / (gguf ? "out.gguf" : "out.safetensors");
    const ConvertReport report = convert(in, out, to, {}, {.overwrite = true});
    EXPECT_EQ(report.bytes, fs::file_size(out)) << to;
    EXPECT_THAT(report.notes, IsEmpty()) << to;
    const TransformerFiles back = open_transformer(out);
    EXPECT_EQ(back.config.num_heads, 2) << to;
    int quantised = 0;
    const double error = largest_error(*back.source, *from.source, &quantised);
    EXPECT_LE(error, bound) << to;
    EXPECT_EQ(error > 0, bound > 0) << to;
    EXPECT_EQ(quantised, count) << to;
    for (const char* name : {"patch_embedding.weight", "patch_embedding.bias", "scale_shift_table"})
      EXPECT_EQ(values_of(*back.source->find(name)), values_of(*from.source->find(name))) << to << name;
  }
}

// The bytes are the same for any number of threads, and a quantised source gives the values that it stands
// for.
TEST(Convert, ThreadsChangeNothingAndQuantisedSourcesAreSaid) {
  const test::ScratchFolder scratch;
  const fs::path in = wide_transformer(scratch.path / "in.safetensors");
  for (const char* to : {"fp8", "int8"}) {
    const fs::path a = scratch.path / "a.safetensors", b = scratch.path / "b.safetensors";
    convert(in, a, to, {}, {.overwrite = true, .threads = 1});
    convert(in, b, to, {}, {.overwrite = true, .threads = 5});
    EXPECT_EQ(bytes_of(a), bytes_of(b)) << to;
  }
  const fs::path q8 = scratch.path / "q8.gguf", plain = scratch.path / "plain.safetensors";
  convert(in, q8, "gguf:Q8_0");
  EXPECT_THAT(convert(q8, plain, "single").notes,
              Contains(AllOf(HasSubstr("q8_0"), HasSubstr("decoded values"))));
  const auto got = open_transformer(plain).source, want = open_transformer(q8).source;
  for (const auto& entry : want->entries()) {
    std::vector<float> values = values_of(entry);
    if (entry.derived)
      for (float& value : values) value = to_float(to_bf16(value));
    EXPECT_EQ(values_of(*got->find(entry.name)), values) << entry.name;
  }
  EXPECT_THAT(convert(q8, scratch.path / "again.gguf", "gguf:Q8_0").notes, Contains(HasSubstr("already")));
}

TEST(Convert, AFileBecomesAFolderWithThePartsThatAreThere) {
  const test::ScratchFolder scratch;
  const fs::path file = scratch.path / "tiny.safetensors", out = scratch.path / "alone";
  convert(test::model_path(), file, "single");
  const ConvertReport alone = convert(file, out, "diffusers");
  EXPECT_THAT(alone.notes,
              AllOf(Contains(HasSubstr("left out: `text_encoder`")), Contains(HasSubstr("left out: `vae`"))));
  const auto index = nlohmann::json::parse(std::ifstream(out / "model_index.json"));
  EXPECT_TRUE(index["vae"][1].is_null());
  EXPECT_EQ(largest_error(*open_transformer(out / "transformer").source, *open_transformer(file).source), 0);
  // If the other parts are named, the result is a whole model.
  const fs::path whole = scratch.path / "whole";
  convert(file, whole, "diffusers",
          {.text_encoder = test::model_path(),
           .vae = test::model_path(),
           .tokenizer = test::model_path() + "/tokenizer"});
  const ModelBundle a = ModelBundle::open(whole), b = ModelBundle::open(test::model_path());
  EXPECT_EQ(largest_error(*a.text_encoder, *b.text_encoder), 0);
  EXPECT_EQ(largest_error(*a.vae, *b.vae), 0);
  // The other parts can be converted by themselves.
  const fs::path vae = scratch.path / "vae";
  convert(test::model_path() + "/vae", vae, "diffusers");
  EXPECT_THAT(entries_in(vae), testing::ElementsAre("vae"));
  EXPECT_THAT(
      test::refusal([&] { convert(test::model_path() + "/vae", scratch.path / "v.gguf", "gguf:Q8_0"); },
                    ErrorCode::unsupported),
      HasSubstr("patch_embedding.weight"));
}

TEST(Convert, WhatCannotBeWrittenIsRefusedAndLeavesNothing) {
  const test::ScratchFolder scratch;
  const fs::path in = wide_transformer(scratch.path / "in.safetensors");
  const auto refused = [&](const fs::path& out, const char* to, ErrorCode code, const std::string& says,
                           ConvertOptions options = {}, PartPaths parts = {}) {
    EXPECT_THAT(test::refusal([&] { convert(in, out, to, parts, options); }, code), HasSubstr(says)) << to;
  };
  const auto invalid = ErrorCode::invalid_argument;
  refused(scratch.path / "o.gguf", "gguf:Q4_K", invalid, "Q8_0, Q5_1");
  refused(scratch.path / "o.gguf", "fp16", invalid, "diffusers, single, fp8, int8");
  refused(scratch.path / "o.safetensors", "gguf:Q8_0", invalid, ".gguf");
  refused(scratch.path / "o.gguf", "fp8", invalid, ".safetensors");
  refused(scratch.path / "o.safetensors", "diffusers", invalid, "folder");
  refused(in, "diffusers", invalid, "this is a file");
  refused(in, "single", invalid, "`overwrite`");
  refused(in, "single", invalid, "this is the input", {.overwrite = true});
  refused(scratch.path, "diffusers", invalid, "`overwrite`");
  refused(scratch.path, "diffusers", invalid, "in.safetensors, which is not part", {.overwrite = true});
  refused(scratch.path / "no/o.gguf", "gguf:F16", ErrorCode::io, "there is no folder");
  refused(scratch.path / "o.safetensors", "fp8", invalid, "one part by itself", {.part = "transformer_2"});
  refused(scratch.path / "o.safetensors", "fp8", invalid, "`part`", {.part = "vae"});
  refused(scratch.path / "o.safetensors", "fp8", invalid, "leave out the other parts", {}, {.vae = "x"});
  refused(scratch.path / "d", "diffusers", ErrorCode::not_found, "no such file", {}, {.vae = "gone"});
  std::atomic<bool> cancel{true};
  refused(scratch.path / "o.safetensors", "fp8", ErrorCode::cancelled, "cancelled", {.cancel = &cancel});
  refused(scratch.path / "d", "diffusers", ErrorCode::cancelled, "cancelled", {.cancel = &cancel});
  wide_transformer(in, 3e5f);
  refused(scratch.path / "o.gguf", "gguf:F16", ErrorCode::numerical, "which f16 cannot hold");
  wide_transformer(in, NAN);
  refused(scratch.path / "o.safetensors", "fp8", ErrorCode::numerical, "NaN or Inf");
  refused(scratch.path / "o.gguf", "gguf:Q4_0", ErrorCode::numerical, "NaN or Inf");
  EXPECT_THAT(entries_in(scratch.path), testing::ElementsAre("in.safetensors"));
}

TEST(Convert, WhatAppearsInTheMeantimeIsKept) {
  const test::ScratchFolder scratch;
  const fs::path file = scratch.path / "f.gguf", folder = scratch.path / "d";
  const auto write = [](const fs::path& path, const std::string& text) { std::ofstream(path) << text; };
  {
    OutputFile out(file);
    out.write_at(0, "made", 4);
    write(file, "mine");
    EXPECT_THAT(test::refusal([&] { out.commit(4, false); }, ErrorCode::io), HasSubstr("/.f.gguf."));
  }
  {
    OutputFolder out(folder, {});
    write(out.place("made"), "made");
    fs::create_directory(folder), write(folder / "mine", "mine");
    EXPECT_THAT(test::refusal([&] { out.commit(false); }, ErrorCode::io), HasSubstr(".d.convert.part"));
  }
  EXPECT_EQ(fs::file_size(file), 4u);
  EXPECT_THAT(entries_in(folder), testing::ElementsAre("mine"));
  EXPECT_THAT(entries_in(scratch.path / ".d.convert.part"), testing::ElementsAre("made"));
  EXPECT_THAT(entries_in(scratch.path),
              testing::ElementsAre(".d.convert.part", testing::StartsWith(".f.gguf."), "d", "f.gguf"));
}

TEST(Convert, TheInputIsRefusedByEveryNameThatItHas) {
  const test::ScratchFolder scratch;
  const auto refused = [&](const fs::path& in, const fs::path& out, const char* to) {
    return test::refusal([&] { convert(in, out, to, {}, {.overwrite = true}); }, ErrorCode::invalid_argument);
  };
  // The folder has links to files elsewhere.
  const fs::path real = scratch.path / "real", links = scratch.path / "links";
  convert(test::model_path(), real, "diffusers");
  fs::create_directory(links);
  for (const auto& item : fs::recursive_directory_iterator(real)) {
    const fs::path to = links / fs::relative(item.path(), real);
    item.is_directory() ? void(fs::create_directories(to)) : fs::create_symlink(item.path(), to);
  }
  EXPECT_THAT(refused(links, links, "diffusers"), HasSubstr("this is the input"));
  fs::create_directory(scratch.path / "empty");
  fs::create_directory_symlink(scratch.path / "empty", scratch.path / "link");
  EXPECT_THAT(refused(real, scratch.path / "link", "diffusers"), HasSubstr("this is a link"));
}

TEST(Convert, AFileNamedAsAnUnfinishedOneIsSomebodys) {
  const test::ScratchFolder scratch;
  const fs::path part = wide_transformer(scratch.path / "o.safetensors.part");
  const auto text = [](const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string before = text(part);
  convert(part, scratch.path / "o.safetensors", "fp8");
  EXPECT_EQ(text(part), before);
  EXPECT_THAT(entries_in(scratch.path), testing::ElementsAre("o.safetensors", "o.safetensors.part"));
}

TEST(Convert, OverwritingReplacesTheWholeFolder) {
  const test::ScratchFolder scratch;
  const fs::path out = scratch.path / "model";
  convert(test::model_path(), out, "diffusers", {}, {.max_shard_bytes = 20000});
  convert(test::model_path(true), out, "diffusers", {}, {.overwrite = true});
  EXPECT_THAT(entries_in(out / "transformer"),
              testing::ElementsAre("config.json", "diffusion_pytorch_model.safetensors"));
  EXPECT_THAT(entries_in(scratch.path), testing::ElementsAre("model"));
  EXPECT_THAT(test::refusal([&] { convert(out, out, "diffusers", {}, {.overwrite = true}); },
                            ErrorCode::invalid_argument),
              HasSubstr("this is the input"));
  // Files that do not belong to a model are not lost, however deep they are; links are not followed.
  const auto kept = [&](const fs::path& item) {
    EXPECT_THAT(test::refusal([&] { convert(test::model_path(), out, "diffusers", {}, {.overwrite = true}); },
                              ErrorCode::invalid_argument),
                HasSubstr("it holds " + item.string() + ","));
    EXPECT_GT(fs::remove_all(out / item), 0u);
  };
  for (const char* item : {"notes.txt", "transformer/notes.txt", "vae/lora.safetensors"})
    std::ofstream(out / item) << "mine", kept(item);
  for (const char* item : {"backup", "transformer/backup", "vae/model.safetensors"})
    fs::create_directory(out / item), kept(item);
  fs::remove_all(out / "vae"), fs::create_directory(scratch.path / "mine");
  std::ofstream(scratch.path / "mine/notes.txt") << "mine";
  fs::create_directory_symlink(scratch.path / "mine", out / "vae");
  convert(test::model_path(), out, "diffusers", {}, {.overwrite = true});
  EXPECT_TRUE(fs::exists(scratch.path / "mine/notes.txt"));
  EXPECT_FALSE(fs::is_symlink(out / "vae"));
  fs::remove_all(scratch.path / "mine");
  // Files of a killed process are removed, and only one process at a time fills a folder.
  fs::create_directories(scratch.path / ".model.convert.part/transformer");
  std::ofstream(scratch.path / ".model.convert.part/transformer/left") << "x";
  {
    const OutputFolder other(out, {"vae"});
    EXPECT_THAT(entries_in(scratch.path / ".model.convert.part"), testing::ElementsAre("vae"));
    EXPECT_THAT(test::refusal([&] { convert(test::model_path(), out, "diffusers", {}, {.overwrite = true}); },
                              ErrorCode::io),
                HasSubstr("another process"));
  }
  EXPECT_THAT(entries_in(scratch.path), testing::ElementsAre("model"));
}

}  // namespace
}  // namespace tachy
