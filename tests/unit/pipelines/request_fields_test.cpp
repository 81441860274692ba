// The table of a request's fields is complete, and every range and choice in it is checked under its name.
#include "request/request_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace tachy {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string refusal_of_fields(const VideoRequest& request) {
  try {
    check_fields(request);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    return e.message();
  }
  return "accepted";
}

std::string with(const RequestField& field, auto value) {
  VideoRequest request;
  std::visit(
      [&](auto member) {
        using Value = std::decay_t<decltype(*value_in(request.*member))>;
        if constexpr (std::is_convertible_v<decltype(value), Value>)
          request.*member = static_cast<Value>(value);
        else
          ADD_FAILURE() << field.name << " cannot hold such a value";
      },
      field.member);
  return refusal_of_fields(request);
}

// A new member of VideoRequest does not compile here before it is named; then the test fails until it has an
// entry in request_fields.cpp and a spelling in apps/cli/field_options.cpp.
TEST(RequestFields, EveryMemberHasAnEntry) {
  const VideoRequest r;
  const auto& [prompt, negative_prompt, width, height, frames, fps, preset, steps, guidance, guidance_2,
               high_noise_steps, shift, sampler, grid, sinusoid, seed, rng, rng_multiprocessors,
               max_text_tokens, init_latents, image, last_image, image_embeds, image_fit, video,
               control_video, mask_video, reference, reference_2, reference_3, reference_4, strength,
               vace_strength, outpaint, keep, clip_preparation, speech, speech_2, speakers, speaker_boxes,
               speaker_mask, speaker_mask_2, audio_guidance, motion_frames, recipe, color_correction, level,
               dtype, step_cache, without, residual, attention, int8_keys, math, vae_math, sparse_attention,
               sparse_chooser, sparse_dense_steps, windows, window_frames, window_overlap, window_stride,
               window_mask, free_noise, riflex, block, block_window, loras, lora_mode, lora_unmatched] = r;
  const std::set<const void*> members = {&prompt,
                                         &negative_prompt,
                                         &width,
                                         &height,
                                         &frames,
                                         &fps,
                                         &preset,
                                         &steps,
                                         &guidance,
                                         &guidance_2,
                                         &high_noise_steps,
                                         &shift,
                                         &sampler,
                                         &grid,
                                         &sinusoid,
                                         &seed,
                                         &rng,
                                         &rng_multiprocessors,
                                         &max_text_tokens,
                                         &init_latents,
                                         &image,
                                         &last_image,
                                         &image_embeds,
                                         &image_fit,
                                         &video,
                                         &control_video,
                                         &mask_video,
                                         &reference,
                                         &reference_2,
                                         &reference_3,
                                         &reference_4,
                                         &strength,
                                         &vace_strength,
                                         &outpaint,
                                         &keep,
                                         &clip_preparation,
                                         &speech,
                                         &speech_2,
                                         &speakers,
                                         &speaker_boxes,
                                         &speaker_mask,
                                         &speaker_mask_2,
                                         &audio_guidance,
                                         &motion_frames,
                                         &recipe,
                                         &color_correction,
                                         &attention,
                                         &int8_keys,
                                         &math,
                                         &vae_math,
                                         &level,
                                         &dtype,
                                         &step_cache,
                                         &without,
                                         &residual,
                                         &sparse_attention,
                                         &sparse_chooser,
                                         &sparse_dense_steps,
                                         &windows,
                                         &window_frames,
                                         &window_overlap,
                                         &window_stride,
                                         &window_mask,
                                         &free_noise,
                                         &riflex,
                                         &block,
                                         &block_window,
                                         &loras,
                                         &lora_mode,
                                         &lora_unmatched};
  std::set<const void*> entries;
  const auto add = [&](const auto& table) {
    for (const auto& entry : table)
      std::visit([&](auto member) { EXPECT_TRUE(entries.insert(&(r.*member)).second) << entry.name; },
                 entry.member);
  };
  add(request_fields()), add(request_inputs());
  EXPECT_EQ(entries, members);
}

TEST(RequestFields, NamesAndKeysAreOneFieldsEach) {
  std::set<std::string> names;
  const auto add = [&](const std::string& name) { EXPECT_TRUE(names.insert(name).second) << name; };
  for (const RequestField& field : request_fields()) {
    add(field.name);
    if (std::string(field.key) != field.name) add(field.key);
    EXPECT_EQ(find_field(request_fields(), field.name), &field);
  }
  for (const RequestInput& input : request_inputs()) add(input.name);
  EXPECT_EQ(find_field(request_fields(), "num_frames"), nullptr) << "messages say names, not keys";
}

TEST(RequestFields, RangesAreCheckedByName) {
  int ranged = 0;
  for (const RequestField& field : request_fields()) {
    const auto* range = std::get_if<Range>(&field.allowed);
    if (!range) continue;
    ++ranged;
    const std::string says = fmt::format("`{}`: expected {}, got ", field.name, range->text());
    EXPECT_EQ(with(field, range->most), "accepted") << field.name;
    EXPECT_THAT(with(field, range->most + 1), StartsWith(says));
    EXPECT_THAT(with(field, range->least - 1), StartsWith(says));
    EXPECT_THAT(with(field, range->least), range->above ? testing::Matcher<std::string>(StartsWith(says))
                                                        : testing::Matcher<std::string>("accepted"));
    if (std::holds_alternative<std::optional<double> VideoRequest::*>(field.member)) {
      EXPECT_THAT(with(field, NAN), StartsWith(says));
    }
  }
  EXPECT_GE(ranged, 10);
}

TEST(RequestFields, ChoicesAreCheckedByName) {
  int choosing = 0;
  for (const RequestField& field : request_fields()) {
    const auto* choices = std::get_if<Choices>(&field.allowed);
    if (!choices) continue;
    ++choosing;
    for (const std::string_view choice : *choices)
      EXPECT_EQ(with(field, std::string(choice)), "accepted") << field.name;
    EXPECT_EQ(with(field, std::string("frobnicate")),
              fmt::format("`{}`: expected {}, got 'frobnicate'", field.name, text_of(*choices)));
  }
  EXPECT_GE(choosing, 4);
}

// A field's own default is stated once, in VideoRequest; its help repeats it for people.
TEST(RequestFields, DefaultsInHelpAreTrue) {
  EXPECT_EQ(refusal_of_fields(VideoRequest()), "accepted");
  const VideoRequest defaults;
  for (const RequestField& field : request_fields())
    std::visit(
        [&](auto member) {
          using Value = std::decay_t<decltype(defaults.*member)>;
          if constexpr (std::is_arithmetic_v<Value>) {
            EXPECT_THAT(field.help, HasSubstr(fmt::format("(default {})", defaults.*member))) << field.name;
          }
        },
        field.member);
  EXPECT_THAT(find_field(request_fields(), "level")->help, HasSubstr(defaults.level + " (float32, default)"));
  EXPECT_THAT(find_field(request_fields(), "image_fit")->help, HasSubstr(defaults.image_fit + " (default"));
}

TEST(RequestFields, FillingLeavesWhatIsGiven) {
  VideoRequest request{.prompt = "x", .steps = 7}, defaults{.prompt = "y", .steps = 50, .guidance = 5};
  defaults.seed = 9;
  fill_fields(request, defaults);
  EXPECT_EQ(request.prompt, "x");
  EXPECT_EQ(request.seed, 0u);
  EXPECT_EQ(request.steps, 7);
  EXPECT_EQ(request.guidance, 5);
  EXPECT_EQ(request.shift, std::nullopt);
}

}  // namespace
}  // namespace tachy
