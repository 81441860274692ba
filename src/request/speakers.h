// Two people in one picture, as in InfiniteTalk: their speech, the order of the two sounds, and their places.
// The places finally become a mask of tokens for each (ResolvedRequest::speaker_regions), which tells the
// transformer's blocks which speaker a token follows (models/wan/branches/speakers); every other token is
// background.
#pragma once

#include "request/request.h"

namespace tachy {

// Columns [x0, x1) and rows [y0, y1) of the picture: x to the right, y down. InfiniteTalk's own input names
// them the other way round: its "x" is a row.
struct SpeakerBox {
  int64_t x0 = 0, y0 = 0, x1 = 0, y1 = 0;
};

// Checks a request's fields about two speakers (a request with one sound must leave them empty), and fills in
// `speakers`. The picture is still the whole one, to which boxes and masks refer. Throws invalid_argument,
// naming the field.
void resolve_speakers(VideoRequest& request);

// Returns the places of the speakers of a resolved request in a picture of this size, if no masks are given:
// their boxes, otherwise InfiniteTalk's two halves, each without a margin of 5 %.
std::vector<SpeakerBox> speaker_boxes(const VideoRequest& request, int64_t width, int64_t height);

// Returns the number of samples that both sounds of a request take at 16 kHz: that of the longer one, or the
// sum.
size_t spoken_samples(const VideoRequest& request);

// Makes both sounds as long as they take together: adds silence after the shorter one, or while the other one
// speaks.
void lay_in_time(const std::string& speakers, std::vector<float>& first, std::vector<float>& second);

}  // namespace tachy
