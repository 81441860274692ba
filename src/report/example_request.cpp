#include "report/example_request.h"

#include "media/sound/sound_reader.h"

namespace tachy {

VideoRequest example_request(const ModelBundle& m) {
  VideoRequest r = m.defaults;
  r.prompt = "a prompt of ordinary length, for the memory of its keys and values";
  if (m.family->image == Given::needed)
    r.image = std::make_shared<Picture>(Picture{1, 1, std::vector<uint8_t>(3)});
  if (m.family->last_image == Given::needed) r.last_image = r.image;
  if (m.audio_encoder) {  // the sound is as long as a window
    const auto samples = static_cast<size_t>(*r.window_frames) * kSpeechRate / 25;
    r.speech = std::make_shared<Speech>(Speech{std::vector<float>(samples + 1)});
    r.frames = r.window_frames;
  }
  if (seen_pictures(m.dit) > 0 && !m.image_encoder) {
    const int64_t rows = m.dit.pos_embed_seq_len > 0 ? m.dit.pos_embed_seq_len : 257;
    r.image_embeds = std::make_shared<ImageEmbeds>(ImageEmbeds{
        std::vector<float>(static_cast<size_t>(rows * m.dit.image_dim)), {rows, m.dit.image_dim}});
  }
  return r;
}

}  // namespace tachy
