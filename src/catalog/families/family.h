// A family of models: how they take pictures, what requests need or must not have, and the defaults.
// ModelBundle::family is found once, when a model is opened; no other code looks at a config to find out what
// kind of model it is. To add a family, add a row to the table in families.cpp. How a video is made also
// depends on the request: see engine/courses/course.h.
#pragma once

#include <optional>

#include "models/wan/wan_config.h"
#include "request/presets.h"
#include "weights/model_layout.h"

namespace tachy {

// How a model takes a picture. first_frame: it is the first latent frame, which stays while the others are
// denoised (2.2 TI2V). channels: a mask and an encoded video are extra channels (2.1 and 2.2 image-to-video,
// first-last-frame).
enum class ImageInput { none, first_frame, channels };

// The properties that tell families apart.
struct FamilyTraits {
  ImageInput image_input = ImageInput::none;
  int seen_pictures = 0;  // how many pictures the transformer's image branch looks at
  bool experts = false;   // whether it has two transformers
  bool speech = false;    // whether it has InfiniteTalk's audio branch
  bool actions = false;   // whether it has Matrix-Game 2's action modules
  bool control = false;   // whether it has VACE's control blocks
};

// Whether a request may or must give something to a model.
enum class Given { refused, perhaps, needed };

// The defaults of the original pipelines. They are used if neither the request nor the model's own settings
// give a value.
struct FamilyDefaults {
  int width = 832, height = 480, frames = 81;
  double fps = 16;
  int steps = 50;
  double shift = 5;
  std::optional<double> small_shift;    // at 832x480, for models of the original repository's layout
  double guidance = 5, guidance_2 = 3;  // with two experts, for the first and the second
  double audio_guidance = 1;            // for models that follow speech
  const char* sampler = "unipc";
  const char* grid = nullptr;   // if null, the default of the model's layout
  bool over_scheduler = false;  // these defaults take precedence over a scheduler's config
  const char* shots = "";       // put in front of the original's negative prompt
};

struct Family {
  ModelFamily name;                           // the name by which presets know it
  std::optional<ModelFamily> with_last = {};  // its name in presets if the request has a last picture
  const char* kind;                           // its name in messages: "text-to-video"
  bool (*fits)(const FamilyTraits& traits);
  ImageInput image_input = ImageInput::none;
  Given image = Given::refused, last_image = Given::refused;
  bool talks = false;                // it follows speech
  bool follows = false;              // it follows a control video, masks and references (VACE)
  bool blocks = false;               // its videos can be made block by block if it was distilled for this
  bool worlds = false;               // it can make worlds, which begin with a prompt
  bool actions = false;              // or with a picture, and follow keys and mouse
  const char* no_request = nullptr;  // why it takes no requests at all; null if it does
  double boundary = 0.875;           // the boundary of two experts, if no file gives it
  FamilyDefaults defaults = {};

  ModelFamily preset_family(bool last_image) const { return last_image ? with_last.value_or(name) : name; }
};

// Returns how many pictures a transformer's image branch looks at, or 0 if it has no such branch.
int seen_pictures(const WanConfig& config);

// Returns the first row of the table that fits; every model has one.
const Family& family_of(const ModelFiles& files, const WanConfig& config);

}  // namespace tachy
