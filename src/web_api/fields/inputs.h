// Pictures, sounds and videos of a request. Each is a file part, a data URL, {image_url, audio_url or video_url: data
// URL}, or an address if the server was started with hosts for them. What a file is, is decided by its content. It is
// opened here, with limits on its bytes, pixels, frames and seconds, so that a small file cannot become a large one in
// memory. The first frames of a video are decoded, too.
#pragma once

#include <memory>
#include <string>

#include "web_api/fields/given_fields.h"
#include "web_api/job_request.h"

namespace tachy::web_api {

inline constexpr uint64_t kMostPictureBytes = uint64_t{64} << 20;
inline constexpr int64_t kMostPicturePixels = 40'000'000;
inline constexpr double kMostSoundSeconds = 1800;
inline constexpr double kMostSoundSamples = 1e8;     // before they become 16 kHz
inline constexpr int64_t kMostVideoFrames = 20'000;  // 20 minutes of 16 frames a second

// Finds the input's file and reads it into the job's request. The file is added to `out`, also under its name and hash
// in `given`. Throws ApiError.
void take_input(const ApiField& field, const Value& value, const Fields& fields, const Offers& offers,
                JobRequest& out);
// Does the same for a list of files, or one: the first is the field's own, and the others are those of the fields that
// are numbered from 2 on.
void take_inputs(const ApiField& field, const Value& value, const GivenFields& given, const Fields& fields,
                 const Offers& offers, JobRequest& out);

// Returns the last part of a name that somebody sent, fit to be shown. It is never used as a path.
std::string shown_filename(const std::string& filename);

}  // namespace tachy::web_api
