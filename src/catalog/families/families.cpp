// The table of families. Its order matters: a model belongs to the first row that fits.
#include "base/error.h"
#include "catalog/families/family.h"
#include "weights/json_file.h"

namespace tachy {
namespace {

using Traits = FamilyTraits;

constexpr const char* kImageToVideo = "image-to-video";
constexpr const char* kAllInOne = "all-in-one (VACE)";
constexpr const char* kSteadyShot = "镜头晃动，";               // no shaking camera
constexpr const char* kOneSteadyShot = "镜头切换，镜头晃动，";  // no cuts and no shaking camera

bool behind_the_noise(const Traits& t) { return t.image_input == ImageInput::channels; }

constexpr Family kFamilies[] = {
    // This is Matrix-Game 2.
    {.name = ModelFamily::image,
     .kind = "world",
     .fits = [](const Traits& t) { return t.actions; },
     .image_input = ImageInput::channels,
     .image = Given::needed,
     .worlds = true,
     .actions = true,
     .no_request =
         "this model follows a picture and actions of keyboard and mouse (Matrix-Game 2), not a prompt: "
         "tachyscope world makes its videos"},
    // InfiniteTalk with Wan2.1-I2V. The defaults are those of its own program, since a scheduler's config
    // belongs to Wan2.1.
    {.name = ModelFamily::talking,
     .kind = kImageToVideo,
     .fits =
         [](const Traits& t) { return behind_the_noise(t) && t.speech && t.seen_pictures < 2 && !t.experts; },
     .image_input = ImageInput::channels,
     .image = Given::needed,
     .last_image = Given::perhaps,
     .talks = true,
     .defaults = {.fps = 25,
                  .steps = 40,
                  .shift = 7,
                  .small_shift = 3,
                  .audio_guidance = 4,
                  .sampler = "euler",
                  .grid = "multitalk",
                  .over_scheduler = true,
                  .shots = kSteadyShot}},
    // Wan2.2-TI2V-5B.
    {.name = ModelFamily::first_frame,
     .kind = "text-and-image-to-video",
     .fits = [](const Traits& t) { return t.image_input == ImageInput::first_frame; },
     .image_input = ImageInput::first_frame,
     .image = Given::perhaps,
     .defaults = {.width = 1280, .height = 704, .frames = 121, .fps = 24}},
    // Wan2.1-FLF2V.
    {.name = ModelFamily::two_pictures,
     .kind = "first-last-frame-to-video",
     .fits = [](const Traits& t) { return behind_the_noise(t) && t.seen_pictures == 2; },
     .image_input = ImageInput::channels,
     .image = Given::needed,
     .last_image = Given::needed,
     .defaults = {.shift = 16, .shots = kOneSteadyShot}},
    // Wan2.1-I2V.
    {.name = ModelFamily::image,
     .kind = kImageToVideo,
     .fits = [](const Traits& t) { return behind_the_noise(t) && t.seen_pictures == 1; },
     .image_input = ImageInput::channels,
     .image = Given::needed,
     .last_image = Given::perhaps,
     .defaults = {.steps = 40, .small_shift = 3, .shots = kSteadyShot}},
    // Wan2.2-I2V-A14B.
    {.name = ModelFamily::image_experts,
     .with_last = ModelFamily::two_pictures_experts,
     .kind = kImageToVideo,
     .fits = [](const Traits& t) { return behind_the_noise(t) && t.experts; },
     .image_input = ImageInput::channels,
     .image = Given::needed,
     .last_image = Given::perhaps,
     .boundary = 0.9,
     .defaults = {.steps = 40, .guidance = 3.5, .guidance_2 = 3.5}},
    // One of the experts of such a model alone, or a model of this kind with one transformer.
    {.name = ModelFamily::image,
     .kind = kImageToVideo,
     .fits = behind_the_noise,
     .image_input = ImageInput::channels,
     .image = Given::needed,
     .last_image = Given::perhaps},
    // Fun-VACE A14B of Wan2.2.
    {.name = ModelFamily::text_experts,
     .kind = kAllInOne,
     .fits = [](const Traits& t) { return t.control && t.experts; },
     .image = Given::perhaps,
     .last_image = Given::perhaps,
     .follows = true,
     .defaults = {.steps = 40, .shift = 12, .guidance = 4}},
    // Wan2.1-VACE.
    {.name = ModelFamily::text,
     .kind = kAllInOne,
     .fits = [](const Traits& t) { return t.control; },
     .image = Given::perhaps,
     .last_image = Given::perhaps,
     .follows = true,
     .defaults = {.shift = 16}},
    // Wan2.2-T2V-A14B.
    {.name = ModelFamily::text_experts,
     .kind = "text-to-video",
     .fits = [](const Traits& t) { return t.experts; },
     .defaults = {.steps = 40, .shift = 12, .guidance = 4}},
    // Wan2.1-T2V, and the models of Self-Forcing and CausVid.
    {.name = ModelFamily::text,
     .kind = "text-to-video",
     .fits = [](const Traits&) { return true; },
     .blocks = true,
     .worlds = true},
};

ImageInput image_input_of(const ModelFiles& files, const WanConfig& c) {
  if (c.image_branch() || c.in_channels > c.out_channels) return ImageInput::channels;
  const bool expands = files.model_index &&
                       json_bool(*files.model_index, "expand_timesteps", false);  // diffusers' name for this
  return expands || c.in_channels == 48 ? ImageInput::first_frame : ImageInput::none;
}

FamilyTraits traits_of(const ModelFiles& files, const WanConfig& c) {
  return {.image_input = image_input_of(files, c),
          .seen_pictures = seen_pictures(c),
          .experts = files.transformer_2.present(),
          .speech = c.audio_branch(),
          .actions = c.actions.present(),
          .control = c.vace.present()};
}

}  // namespace

int seen_pictures(const WanConfig& c) {
  if (!c.image_branch()) return 0;
  return c.pos_embed_seq_len > 0 ? 2 : 1;
}

const Family& family_of(const ModelFiles& files, const WanConfig& config) {
  const FamilyTraits traits = traits_of(files, config);
  for (const Family& family : kFamilies)
    if (family.fits(traits)) return family;
  fail(ErrorCode::internal, "families: the last row fits every model");
}

}  // namespace tachy
