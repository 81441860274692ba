#include "resolve/resolve_images.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tachy {
namespace {

void check_embeds(const ModelBundle& model, const ImageEmbeds* given) {
  const WanConfig& dit = model.dit;
  const int64_t rows = dit.pos_embed_seq_len;
  const std::string expected = fmt::format("[{}, {}]", rows > 0 ? rows : 257, dit.image_dim);
  if (seen_pictures(dit) == 0)
    return require(given == nullptr, "`image_embeds`: this model has no image branch; leave them out");
  if (!given) {
    require(model.image_encoder != nullptr,
            "{}; or give `image_embeds`, a .safetensors file with 'image_embeds' {}, saved from diffusers' "
            "encode_image",
            model.no_image_encoder, expected);
    return;
  }
  int64_t count = 1;
  for (const int64_t extent : given->shape) count *= extent;
  const int64_t width = given->shape.empty() ? 0 : given->shape.back(), found = width > 0 ? count / width : 0;
  // The two pictures of a first-last-frame model may lie one after the other or as a batch.
  const bool batch = given->shape.size() == 3 && given->shape[0] != 1 && !(rows > 0 && given->shape[0] == 2);
  require(width == dit.image_dim && found >= 1 && found <= 4096 && !batch && given->shape.size() >= 2 &&
              given->shape.size() <= 3 && (rows == 0 || found == rows) &&
              given->values.size() == static_cast<size_t>(count),
          "`image_embeds`: expected {}, got [{}]", expected, fmt::join(given->shape, ", "));
  require(std::all_of(given->values.begin(), given->values.end(), [](float v) { return std::isfinite(v); }),
          "`image_embeds`: the file holds NaN or Inf; save it again");
}

}  // namespace

void check_images(const ModelBundle& model, const VideoRequest& r) {
  const WanConfig& dit = model.dit;
  const Family& family = *model.family;
  const auto check_picture = [](const char* field, const Picture* p) {
    require(!p || (p->width > 0 && p->height > 0 &&
                   p->rgb.size() == static_cast<size_t>(p->width) * static_cast<size_t>(p->height) * 3),
            "`{}`: expected a picture of 3 bytes a pixel, got {}x{} with {} bytes", field, p ? p->width : 0,
            p ? p->height : 0, p ? p->rgb.size() : 0);
  };
  check_picture("image", r.image.get());
  check_picture("last_image", r.last_image.get());
  check_picture("reference", r.reference.get());
  check_picture("reference_2", r.reference_2.get());
  check_picture("reference_3", r.reference_3.get());
  check_picture("reference_4", r.reference_4.get());
  if (family.image == Given::refused) {
    require(!r.image && !r.last_image && !r.image_embeds,
            "`{}`: this is a text-to-video model, which takes no picture; a text-and-image-to-video model "
            "(Wan2.2-TI2V-5B) or an image-to-video model would",
            r.image        ? "image"
            : r.last_image ? "last_image"
                           : "image_embeds");
    return;
  }
  if (family.follows) {
    check_embeds(model, r.image_embeds.get());
    require(!r.image || !r.last_image || *r.frames > 1,
            "`frames`: 1 has no room for `last_image`; 5 would work");
    return;
  }
  require(r.image || !r.last_image, "`last_image`: the first frame is needed too, as `image`");
  check_embeds(model, r.image_embeds.get());
  require(family.last_image != Given::refused || !r.last_image,
          "`last_image`: this model takes only the first frame (`image`)");
  if (family.image_input == ImageInput::first_frame) {
    require(!r.image || *r.frames > 1, "`frames`: 1 would give back the picture of `image`; 5 would work");
    return;
  }
  const int64_t channels = 2 * model.vae_config.z_dim + model.vae_config.temporal_stride();
  check(dit.in_channels == channels, ErrorCode::unsupported,
        "this transformer takes {} channels; image-to-video models take {} (noise, mask and picture)",
        dit.in_channels, channels);
  require(r.image != nullptr, "`image`: this is an {} model, which needs a picture to begin with",
          model.kind());
  require(family.last_image != Given::needed || r.last_image,
          "`last_image`: this model goes from one picture to another and needs both");
  require(!r.last_image || *r.frames > 1, "`frames`: 1 has no room for `last_image`; 5 would work");
}

}  // namespace tachy
