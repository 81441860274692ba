// Tests `tachyscope convert`: its output, its refusals, bounded memory, and that nothing has the output's
// name when it is interrupted or killed, or when the disk is full.
#include <sys/mount.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "binary.h"

namespace tachy::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kSprites = std::string(TACHY_SOURCE_DIR) + "/models/sprites";

class Convert : public CliTest {
 protected:
  Done convert(std::vector<std::string> args) {
    args.insert(args.begin(), "convert");
    return run(args);
  }

  // Writes a transformer that is one large matrix, with a hole in place of its values. 8-bit floats take the
  // longest.
  void write_large(const std::string& name, int64_t rows, const std::string& dtype, int64_t size) {
    const int64_t width = 512;
    nlohmann::json header;
    int64_t at = 0;
    const auto add = [&](const std::string& tensor, const std::vector<int64_t>& dims) {
      int64_t bytes = size;
      for (const int64_t extent : dims) bytes *= extent;
      header[tensor] = {{"dtype", dtype}, {"shape", dims}, {"data_offsets", {at, at + bytes}}};
      at += bytes;
    };
    add("patch_embedding.weight", {width, 16, 1, 2, 2}), add("proj_out.weight", {64, width});
    add("condition_embedder.text_embedder.linear_1.weight", {width, 64});
    add("condition_embedder.time_embedder.linear_1.weight", {width, 256});
    add("blocks.0.attn1.to_q.weight", {width, width}), add("blocks.0.attn1.norm_q.weight", {width});
    add("blocks.0.ffn.net.0.proj.weight", {rows, width});
    const std::string text = header.dump();
    const uint64_t length = text.size();
    write(name, std::string(reinterpret_cast<const char*>(&length), 8) + text);
    fs::resize_file(path(name), 8 + length + static_cast<uint64_t>(at));
  }

  // Starts a conversion and waits until begun() says that it writes.
  pid_t start_long(const std::string& output, const std::string& to, const std::function<bool()>& begun) {
    write_large("in.safetensors", 262144, "F8_E4M3", 1);
    const pid_t child = start({"convert", "in.safetensors", output, "--to", to, "-t", "1"});
    for (int i = 0; i < 3000 && !begun(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_TRUE(begun()) << "nothing is written within 15 s";
    return child;
  }
};

TEST_F(Convert, SaysWhatItWrote) {
  Done done = convert({model_path(), "a.safetensors", "--to", "single"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, AllOf(HasSubstr("a.safetensors ("), HasSubstr("tensors: "), HasSubstr("stay where")));
  EXPECT_EQ(done.err, "") << "what is done at once shows no progress";
  done = convert({"a.safetensors", "b", "--to", "diffusers", "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  const auto last = nlohmann::json::parse(done.out.substr(done.out.rfind("{\"bytes")));
  EXPECT_EQ(last["event"], "done");
  EXPECT_EQ(last["output"], "b");
  EXPECT_THAT(last["files"].dump(), HasSubstr("transformer/config.json"));
  EXPECT_THAT(last["notes"].dump(), HasSubstr("text_encoder"));
  EXPECT_EQ(convert({"a.safetensors", "c.gguf", "--to", "gguf:Q8_0", "-q"}).out, "");
  EXPECT_EQ(run({"info", "c.gguf"}).code, 0);
  EXPECT_EQ(files(), (std::set<std::string>{"a.safetensors", "b", "c.gguf"}));
}

TEST_F(Convert, KeepsWhatIsThere) {
  write("a.safetensors", "mine");
  Done done = convert({model_path(), "a.safetensors", "--to", "single"});
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, AllOf(HasSubstr("a.safetensors"), HasSubstr("--overwrite replaces it")));
  EXPECT_EQ(read_text(path("a.safetensors")), "mine");
  EXPECT_EQ(convert({model_path(), "a.safetensors", "--to", "single", "--overwrite"}).code, 0);
  EXPECT_GT(fs::file_size(path("a.safetensors")), 1000u);
  done = convert({"a.safetensors", "a.safetensors", "--to", "single", "--overwrite"});
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, HasSubstr("this is the input"));
}

// Names of files are bytes and are not changed. Names of tensors are text in every form; other names are
// refused and no file is written.
TEST_F(Convert, NamesThatAreNoUtf8) {
  const std::string name = "caf\xe9";
  const Done done = convert({model_path(), name + ".gguf", "--to", "gguf:F16", "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(nlohmann::json::parse(done.out.substr(done.out.rfind("{\"bytes")))["event"], "done");
  ASSERT_EQ(convert({name + ".gguf", name + ".safetensors", "--to", "single", "-q"}).code, 0);
  EXPECT_EQ(files(), (std::set<std::string>{name + ".gguf", name + ".safetensors"}));
  std::string bytes = read_text(path(name + ".gguf"));
  const std::string tensor = "blocks.0.ffn.0.bias";
  bytes.replace(bytes.find(tensor), tensor.size(), "blocks.0.ffn.0.bi\xffs");
  write("odd.gguf", bytes);
  const auto before = files();
  for (const std::string to : {"single", "fp8", "int8", "gguf:BF16", "diffusers"}) {
    const std::string out = to == "diffusers" ? "d" : to.starts_with("gguf") ? "o.gguf" : "o.safetensors";
    const Done refused = convert({"odd.gguf", out, "--to", to});
    EXPECT_EQ(refused.code, 2) << to;
    EXPECT_THAT(refused.err, HasSubstr("not UTF-8")) << to;
    EXPECT_EQ(files(), before) << to;
  }
}

TEST_F(Convert, TheModelThatShipsIsGeneratedFromEveryForm) {
  if (!fs::exists(kSprites + "/model_index.json")) GTEST_SKIP() << "the shipped model is not here";
  const auto frames = [&](const std::string& model) {
    // There is a warning of the folder's own defaults, which a single file does not contain.
    std::vector<std::string> args{"generate", "a red circle", "-m", model, "-o", "o/", "-q"};
    std::istringstream more(
        "--size 64x32 -f 1 --steps 2 --shift 3 --guidance 3 --sampler unipc --sinusoid original --grid "
        "original -n x --seed 1 --save-latents l.safetensors");
    args.insert(args.end(), std::istream_iterator<std::string>(more), {});
    if (!fs::is_directory(fs::path(model).is_absolute() ? fs::path(model) : path(model)))
      args.insert(args.end(), {"--vae", kSprites, "--text-encoder", kSprites});
    const Done done = run(args);
    EXPECT_EQ(done.code, 0) << model << ": " << done.err;
    return read_text(path("l.safetensors"));
  };
  constexpr size_t kLatents = 16 * 4 * 8 * sizeof(float);  // the latents follow the settings, which name the
                                                           // model
  const auto data = [](const std::string& file) { return file.substr(file.size() - kLatents); };
  const std::string want = data(frames(kSprites));
  for (const std::string to : {"diffusers", "single", "fp8", "int8", "gguf:Q8_0", "gguf:Q4_1", "gguf:BF16"}) {
    const bool exact = to == "diffusers" || to == "single" || to == "gguf:BF16";
    const std::string out = to == "diffusers" ? "d" : to.starts_with("gguf") ? "m.gguf" : "m.safetensors";
    ASSERT_EQ(convert({kSprites, out, "--to", to, "--overwrite", "-q"}).code, 0) << to;
    EXPECT_EQ(data(frames(out)) == want, exact) << to;
  }
}

TEST_F(Convert, InterruptedItLeavesNothing) {
  for (const int signal : {SIGINT, SIGTERM, SIGKILL}) {
    for (const bool folder : {false, true}) {
      const std::string out = folder ? "out" : "out.gguf";
      const auto begun = [&] {
        if (folder) return fs::exists(path(".out.convert.part/transformer/config.json"));
        return std::ranges::any_of(files(),
                                   // The file must be from this run: another run's file is removed.
                                   [&](const std::string& name) {
                                     return name.starts_with(".out.gguf.") && name.ends_with(".part");
                                   });
      };
      const pid_t child = start_long(out, folder ? "diffusers" : "gguf:Q4_0", begun);
      ASSERT_EQ(kill(child, signal), 0);
      const Done done = finish(child);
      EXPECT_FALSE(fs::exists(path(out))) << signal << out;
      if (signal == SIGKILL) {
        EXPECT_EQ(done.code, 1000 + SIGKILL) << "it was done before it could be killed";
        continue;
      }
      EXPECT_EQ(done.code, 130) << done.err;
      EXPECT_THAT(done.err, HasSubstr("cancelled"));
      EXPECT_EQ(files(), (std::set<std::string>{"in.safetensors"})) << signal << out;
    }
  }
  // The next run removes what the killed ones left.
  for (const std::string to : {"diffusers", "gguf:Q4_0"})
    EXPECT_EQ(convert({model_path(), to == "diffusers" ? "out" : "out.gguf", "--to", to}).code, 0) << to;
  EXPECT_EQ(files(), (std::set<std::string>{"in.safetensors", "out", "out.gguf"}));
}

#ifndef TACHY_SANITIZED
TEST_F(Convert, MemoryDoesNotGrowWithTheModel) {
  long peaks[2];
  for (const int large : {0, 1}) {
    write_large("in.safetensors", large ? 262144 : 1024, "BF16", 2);  // 270 MB, or hardly anything
    const Done done = convert({"in.safetensors", "out.safetensors", "--to", "fp8", "--overwrite", "-t", "2"});
    ASSERT_EQ(done.code, 0) << done.err;
    peaks[large] = done.peak_kb;
  }
  EXPECT_LT(peaks[1], peaks[0] + 40 * 1024);
}
#endif

TEST_F(Convert, TooLittleRoom) {
  fs::create_directory(path("disk"));
  if (mount("none", path("disk").c_str(), "tmpfs", 0, "size=1m") != 0)
    GTEST_SKIP() << "mounting a file system takes root";
  write_large("in.safetensors", 65536, "BF16", 2);
  for (const std::string out : {"disk/out.safetensors", "disk/out"}) {
    const Done done = convert({"in.safetensors", out, "--to", out == "disk/out" ? "diffusers" : "fp8"});
    EXPECT_EQ(done.code, 6) << done.err;
    EXPECT_THAT(done.err, AllOf(HasSubstr(out), HasSubstr("MB are needed"), HasSubstr("are free")));
    EXPECT_TRUE(fs::is_empty(path("disk")));
  }
  umount2(path("disk").c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace tachy::test
