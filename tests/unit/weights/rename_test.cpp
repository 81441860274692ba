// Every name of the published models is mapped from the original's name. The lists of pairs come from
// diffusers' converters and models and from transformers (tests/golden/weights/make.py).
#include "weights/names/rename.h"

#include <set>

#include "support.h"

namespace tachy::test {
namespace {

std::vector<std::pair<std::string, std::string>> pairs(const std::string& name) {
  std::vector<std::pair<std::string, std::string>> out;
  std::ifstream in(golden(name));
  for (std::string line; std::getline(in, line);) {
    const auto tab = line.find('\t');
    out.emplace_back(line.substr(0, tab), line.substr(tab + 1));
  }
  return out;
}

std::shared_ptr<TensorSource> source_of(const std::vector<std::string>& names) {
  static const float value = 1;
  std::vector<TensorSource::Entry> entries;
  for (const auto& n : names)
    entries.push_back({.name = n, .name_in_file = n, .dims = {1}, .data = &value, .bytes = sizeof value});
  return std::make_shared<TensorSource>(std::move(entries), std::vector<std::shared_ptr<const MappedFile>>{});
}

// Expects each original name to map to its published one, and each published one to itself, also with
// `prefix`.
void check_all(const std::string& file, size_t count, RenameMap map,
               NamedSource (*whole)(const std::shared_ptr<TensorSource>&), const std::string& prefix) {
  auto list = pairs(file);
  ASSERT_EQ(list.size(), count);
  std::erase_if(list, [](const auto& p) { return p.first == "(tied)"; });
  std::vector<std::string> original, published, prefixed;
  for (const auto& [from, to] : list) {
    EXPECT_EQ(map(from), to);
    EXPECT_EQ(map(to), to);
    original.push_back(from);
    published.push_back(to);
    prefixed.push_back(prefix + from);
  }
  const auto expect_published = [&](const NamedSource& named, bool is_original) {
    EXPECT_EQ(named.original, is_original);
    ASSERT_EQ(named.source->entries().size(), published.size());
    for (const auto& name : published) EXPECT_TRUE(named.source->has(name)) << name;
  };
  expect_published(whole(source_of(original)), true);
  expect_published(whole(source_of(prefixed)), true);
  expect_published(whole(source_of(published)), false);
  EXPECT_EQ(whole(source_of(prefixed)).source->find(published[0])->name_in_file, prefixed[0]);
}

TEST(Rename, DitTextToVideo) {
  check_all("dit_t2v_original.txt", 825, dit_from_original, dit_source, "model.diffusion_model.");
}
TEST(Rename, DitImageToVideo) {
  check_all("dit_i2v_original.txt", 1304, dit_from_original, dit_source, "diffusion_model.");
}
TEST(Rename, Umt5) { check_all("umt5_original.txt", 243, umt5_from_original, umt5_source, "model."); }
TEST(Rename, Vae21) {
  check_all("vae21_original.txt", 194, vae21_from_original, vae_source, "first_stage_model.");
}
TEST(Rename, Vae22) { check_all("vae22_original.txt", 196, vae22_from_original, vae_source, "model."); }

TEST(Rename, UnknownNamesStay) {
  for (const auto* name :
       {"", "blocks", "blocks.", "blocks.x.modulation", "blocks.01.modulation", "blocks.123456.modulation",
        "blocks.0.modulations", "blocks.0.self_attn.qq.weight", "head.head2.weight", "spiece_model"}) {
    EXPECT_EQ(dit_from_original(name), name);
    EXPECT_EQ(umt5_from_original(name), name);
    EXPECT_EQ(vae21_from_original(name), name);
    EXPECT_EQ(vae22_from_original(name), name);
  }
  // In these names a residual is where the upsampler should be, or the other way round.
  for (const auto* name :
       {"decoder.upsamples.3.residual.0.gamma", "decoder.upsamples.0.time_conv.weight", "decoder.upsamples.0",
        "encoder.downsamples..residual.0.gamma", "decoder.middle.3.residual.0.gamma"})
    EXPECT_EQ(vae21_from_original(name), name);
}

TEST(Rename, TiedEmbeddingUnderEitherName) {
  EXPECT_TRUE(umt5_source(source_of({"encoder.embed_tokens.weight"})).source->has("shared.weight"));
  const auto both = umt5_source(source_of({"encoder.embed_tokens.weight", "shared.weight"})).source;
  EXPECT_EQ(both->entries().size(), 1u);
  EXPECT_EQ(both->find("shared.weight")->name_in_file, "shared.weight");
}

TEST(Rename, CollisionIsRefused) {
  const auto source = source_of({"blocks.0.self_attn.q.weight", "blocks.0.attn1.to_q.weight"});
  expect_error(ErrorCode::corrupt, "blocks.0.attn1.to_q.weight", [&] { dit_source(source); });
}

TEST(Rename, PrefixLeavesOtherTensorsAlone) {
  const auto source =
      without_prefix(source_of({"model.diffusion_model.head.head.weight", "vae.x", "model.y"}));
  EXPECT_TRUE(source->has("head.head.weight"));
  EXPECT_TRUE(source->has("vae.x"));
  EXPECT_TRUE(source->has("model.y"));
}

}  // namespace
}  // namespace tachy::test
