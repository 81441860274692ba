// Tests the names under which fields can be given, and that nothing which belongs to the machine is among them.
#include "web_api/fields/field_names.h"

#include <set>

#include "field_case.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

TEST(FieldNames, EverySettingHasItsKeyAndItsMembersName) {
  for (const RequestField& field : request_fields()) {
    const ApiField* const by_key = find_api_field(field.key);
    ASSERT_NE(by_key, nullptr) << field.key;
    EXPECT_EQ(by_key, find_api_field(field.name));
    EXPECT_EQ(by_key->member, field.name);
    EXPECT_EQ(by_key, field_of_member(field.name));
  }
}

TEST(FieldNames, NoNameMeansTwoFields) {
  std::set<std::string> names, members;
  for (const ApiField& field : api_fields()) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
    for (const std::string& alias : field.aliases) EXPECT_TRUE(names.insert(alias).second) << alias;
    EXPECT_TRUE(members.insert(field.member).second) << field.member;
    EXPECT_FALSE(field.help.empty()) << field.name;
  }
}

TEST(FieldNames, SharedSpellingsAreThere) {
  for (const char* name : {"prompt",
                           "model",
                           "seconds",
                           "size",
                           "input_reference",
                           "num_frames",
                           "fps",
                           "num_inference_steps",
                           "guidance_scale",
                           "guidance_scale_2",
                           "negative_prompt",
                           "seed",
                           "flow_shift",
                           "loras",
                           "lora",
                           "audio_reference",
                           "last_image",
                           "preset",
                           "extra_params",
                           "priority"})
    EXPECT_NE(find_api_field(name), nullptr) << name;
}

TEST(FieldNames, NothingOfTheMachineIsThere) {
  for (const EngineField& field : engine_fields())
    EXPECT_EQ(find_api_field(field.name), nullptr) << field.name;
  for (const char* name :
       {"device",   "output",  "output_path", "save_latents", "init_latents", "image_embeds",
        "profile",  "resume",  "state_every", "from",         "webhook",      "callback_url",
        "lora_dir", "path",    "threads",     "__proto__",    "constructor",  "prototype",
        "",         "toString"})
    EXPECT_EQ(find_api_field(name), nullptr) << name;
}

TEST(FieldNames, MessagesGetTheCallersSpelling) {
  const std::string text = "`width`: `frames` and `steps`, with `tachyscope doctor` and `guidance";
  EXPECT_EQ(with_spellings(text, {}),
            "`width`: `num_frames` and `num_inference_steps`, with `tachyscope doctor` and `guidance");
  EXPECT_EQ(with_spellings(text, {{"size", "8x8"}, {"seconds", 5}, {"steps", 7}}),
            "`size`: `seconds` and `steps`, with `tachyscope doctor` and `guidance");
}

}  // namespace
}  // namespace tachy::web_api
