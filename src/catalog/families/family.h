// A family of models: how they take pictures, what a request to one needs and refuses, and what it may leave out. A model's family is found once,
// when the model is opened (ModelBundle::family); nobody else asks a config which kind a model is. A further family is a row of the table in
// families.cpp. How a request's video is made is a course (engine/courses/course.h), which follows from the request.
#pragma once

#include <optional>

#include "models/wan/wan_config.h"
#include "request/presets.h"
#include "weights/model_layout.h"

namespace tachy {

// How a model takes a picture: as the first latent frame, kept while the others are denoised (2.2 TI2V), or
// as mask and encoded video in channels of their own (2.1 and 2.2 image-to-video, first-last-frame).
enum class ImageInput { none, first_frame, channels };

// Families are told apart by this.
struct FamilyTraits {
  ImageInput image_input = ImageInput::none;
  int seen_pictures = 0;  // by the transformer's image branch
  bool experts = false;   // two transformers
  bool speech = false;    // InfiniteTalk's audio branch
  bool actions = false;   // Matrix-Game 2's
};

// Whether a request may give something to a model, or must.
enum class Given { refused, perhaps, needed };

// What the repositories' pipelines use where neither the request nor the model's own settings say.
struct FamilyDefaults {
  int width = 832, height = 480, frames = 81;
  double fps = 16;
  int steps = 50;
  double shift = 5;
  std::optional<double> small_shift;    // at 832x480, for models of the original repository's layout
  double guidance = 5, guidance_2 = 3;  // of two experts: the first's, then the second's
  double audio_guidance = 1;            // of speech
  const char* sampler = "unipc";
  const char* grid = nullptr;   // null: that of the model's layout
  bool over_scheduler = false;  // they count for more than a scheduler's config
  const char* shots = "";       // the original's negative prompt begins with it
};

struct Family {
  ModelFamily name;                           // presets know it by this,
  std::optional<ModelFamily> with_last = {};  // and by this where the request has a last picture
  const char* kind;                           // in messages: "text-to-video"
  bool (*fits)(const FamilyTraits& traits);
  ImageInput image_input = ImageInput::none;
  Given image = Given::refused, last_image = Given::refused;
  bool talks = false;                // it follows speech
  bool blocks = false;               // it can be made block by block where it was distilled for that
  bool worlds = false;               // it can be a world, which begins with a prompt,
  bool actions = false;              // or with a picture, and follows keys and mouse
  const char* no_request = nullptr;  // why it takes no requests at all
  double boundary = 0.875;           // of two experts, where no file says
  FamilyDefaults defaults = {};

  ModelFamily preset_family(bool last_image) const { return last_image ? with_last.value_or(name) : name; }
};

// How many pictures a transformer's image branch looks at; 0: it has none.
int seen_pictures(const WanConfig& config);

// The first row of the table that fits; every model has one.
const Family& family_of(const ModelFiles& files, const WanConfig& config);

}  // namespace tachy
