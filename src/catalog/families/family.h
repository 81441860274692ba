// A family of models: how they take pictures, what a request to them needs and must not have, and its
// defaults. A model's family is found once, when the model is opened (ModelBundle::family); no other code
// examines a config to find out which kind a model is. Another family is a row of the table in families.cpp.
// How a request's video is made is a course (engine/courses/course.h), which depends on the request.
#pragma once

#include <optional>

#include "models/wan/wan_config.h"
#include "request/presets.h"
#include "weights/model_layout.h"

namespace tachy {

// How a model takes a picture: as the first latent frame, which stays while the others are denoised (2.2
// TI2V), or as mask and encoded video in channels of their own (2.1 and 2.2 image-to-video,
// first-last-frame).
enum class ImageInput { none, first_frame, channels };

// The properties by which families are told apart.
struct FamilyTraits {
  ImageInput image_input = ImageInput::none;
  int seen_pictures = 0;  // number that the transformer's image branch looks at
  bool experts = false;   // two transformers
  bool speech = false;    // InfiniteTalk's audio branch
  bool actions = false;   // Matrix-Game 2's
};

// Whether a request may give something to a model, or must.
enum class Given { refused, perhaps, needed };

// The values of the repositories' pipelines, used if neither the request nor the model's own settings give
// any.
struct FamilyDefaults {
  int width = 832, height = 480, frames = 81;
  double fps = 16;
  int steps = 50;
  double shift = 5;
  std::optional<double> small_shift;    // at 832x480, for models of the original repository's layout
  double guidance = 5, guidance_2 = 3;  // with two experts: the first's, then the second's
  double audio_guidance = 1;            // for speech
  const char* sampler = "unipc";
  const char* grid = nullptr;   // null: the default of the model's layout
  bool over_scheduler = false;  // these defaults take precedence over a scheduler's config
  const char* shots = "";       // the original's negative prompt begins with it
};

struct Family {
  ModelFamily name;                           // presets know it by this,
  std::optional<ModelFamily> with_last = {};  // and by this if the request has a last picture
  const char* kind;                           // in messages: "text-to-video"
  bool (*fits)(const FamilyTraits& traits);
  ImageInput image_input = ImageInput::none;
  Given image = Given::refused, last_image = Given::refused;
  bool talks = false;                // it follows speech
  bool blocks = false;               // its videos can be made block by block if it was distilled for that
  bool worlds = false;               // it can make worlds, which begin with a prompt,
  bool actions = false;              // or with a picture, and follow keys and mouse
  const char* no_request = nullptr;  // why it takes no requests at all
  double boundary = 0.875;           // with two experts, if no file gives it
  FamilyDefaults defaults = {};

  ModelFamily preset_family(bool last_image) const { return last_image ? with_last.value_or(name) : name; }
};

// Returns how many pictures a transformer's image branch looks at; 0: it has none.
int seen_pictures(const WanConfig& config);

// Returns the first row of the table that fits; every model has one.
const Family& family_of(const ModelFiles& files, const WanConfig& config);

}  // namespace tachy
