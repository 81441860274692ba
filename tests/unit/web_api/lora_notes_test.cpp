// Tests what a server tells of a LoRA: from its metadata, and from files beside it.
#include "web_api/fields/lora_notes.h"

#include <gmock/gmock.h>

#include <fstream>

#include "temporary_folder.h"

namespace tachy::web_api {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class LoraNotesTest : public InTemporaryFolder {
 protected:
  // Writes a .safetensors file with this metadata and one tensor of four bytes.
  void write_lora(const std::string& metadata) {
    const std::string header =
        R"({"__metadata__":)" + metadata + R"(,"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
    std::ofstream out(lora().path, std::ios::binary);
    for (size_t i = 0; i < 8; ++i) out.put(static_cast<char>(header.size() >> (8 * i) & 0xff));
    out << header << std::string(4, '\0');
  }
  void write_beside(const char* ending, const std::string& text) {
    std::ofstream(folder_ / ("film" + std::string(ending))) << text;
  }
  OfferedLora lora() const { return {"film", folder_ / "film.safetensors", 0}; }
};

TEST_F(LoraNotesTest, TheMetadataTellsWordsAndNotes) {
  write_lora(R"({"modelspec.title":"Film grain","modelspec.description":" soft \n","ss_output_name":"x",)"
             R"("modelspec.trigger_phrase":"grainy, old film, grainy","ss_base_model_version":"wan2.1"})");
  const LoraNotes notes = notes_of(lora());
  EXPECT_EQ(notes.title, "Film grain");
  EXPECT_EQ(notes.notes, "soft");
  EXPECT_EQ(notes.base, "wan2.1");
  EXPECT_THAT(notes.words, ElementsAre("grainy", "old film"));
  EXPECT_FALSE(notes.strength);
}

TEST_F(LoraNotesTest, FrequentTagsStandInForWords) {
  write_lora(
      R"({"ss_tag_frequency":"{\"10_a\": {\"rare\": 1, \"cat\": 20}, \"5_b\": {\"cat\": 1, \"sun\": 3}}"})");
  EXPECT_THAT(notes_of(lora()).words, ElementsAre("cat", "sun", "rare"));
}

TEST_F(LoraNotesTest, FilesBesideItComeFirst) {
  write_lora(R"({"modelspec.title":"Film grain","modelspec.trigger_phrase":"grainy"})");
  write_beside(".txt", "silent film\nsepia\n");
  EXPECT_THAT(notes_of(lora()).words, ElementsAre("silent film", "sepia"));
  write_beside(".json", R"({"activation text": "a, b", "notes": "mine", "preferred weight": 0.7})");
  const LoraNotes notes = notes_of(lora());
  EXPECT_THAT(notes.words, ElementsAre("a", "b"));
  EXPECT_EQ(notes.notes, "mine");
  EXPECT_EQ(notes.title, "Film grain");
  EXPECT_EQ(notes.strength, 0.7);
}

TEST_F(LoraNotesTest, WrongFilesTellNothing) {
  std::ofstream(lora().path) << "no weights";
  write_beside(".json", "[1, 2");
  write_beside(".txt", std::string("\xff\xfe\xfd\xfc\xff", 5));
  EXPECT_THAT(notes_of(lora()).words, IsEmpty());
  write_beside(".json", R"({"title": 5, "trigger_words": [1, ["x"], "good"], "strength": "1", "notes": []})");
  const LoraNotes notes = notes_of(lora());
  EXPECT_THAT(notes.words, ElementsAre("good"));
  EXPECT_EQ(notes.title + notes.notes, "");
  EXPECT_FALSE(notes.strength);
}

TEST_F(LoraNotesTest, LongTextsAreCut) {
  write_lora("{}");
  std::string many;
  for (int i = 0; i < 1000; ++i) many += std::to_string(i) + ",";
  write_beside(".txt", many);
  EXPECT_THAT(notes_of(lora()).words, SizeIs(32));
  write_beside(".json", R"({"notes": ")" + std::string(100'000, 'x') + R"("})");
  EXPECT_EQ(notes_of(lora()).notes.size(), 4000u);
}

}  // namespace
}  // namespace tachy::web_api
