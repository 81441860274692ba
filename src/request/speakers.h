// Two people in one picture, as InfiniteTalk has them: what each says, how the two sounds lie in time, and where they are. Where
// they are ends as a mask of tokens each (ResolvedRequest::speaker_regions), by which the transformer's blocks find whom a
// token follows (models/wan/branches/speakers); what is neither is the background.
#pragma once

#include "request/request.h"

namespace tachy {

// Columns [x0, x1) and rows [y0, y1) of the picture: x to the right, y down. InfiniteTalk's own input names them the other way
// round: its "x" is a row.
struct SpeakerBox {
  int64_t x0 = 0, y0 = 0, x1 = 0, y1 = 0;
};

// Checks what a request says of two speakers (and that one with one sound says nothing), and settles `speakers`. The picture is
// the whole one here, as the boxes and masks mean it. Throws invalid_argument, naming the field.
void resolve_speakers(VideoRequest& request);

// Where the speakers of a resolved request are in a picture of that size where no masks are given: their boxes, otherwise
// InfiniteTalk's two halves, each without a margin of 5 %.
std::vector<SpeakerBox> speaker_boxes(const VideoRequest& request, int64_t width, int64_t height);

// Samples that both sounds of a request take at 16 kHz: as many as the longer one, or as both.
size_t spoken_samples(const VideoRequest& request);

// Makes both sounds as long as they take together: silence behind the shorter one, or while the other one speaks.
void lay_in_time(const std::string& speakers, std::vector<float>& first, std::vector<float>& second);

}  // namespace tachy
