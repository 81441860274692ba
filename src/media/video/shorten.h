// Cuts the end off a finished video, without encoding it again.
#pragma once

#include <filesystem>
#include <string>

namespace tachy {

// Leaves out what begins at or after `seconds` in an mp4 or webm, pictures and sound alike, and replaces its comment.
// The file keeps its name, and at every moment it is either the old one or the new one. In webm the sound comes 7 ms
// earlier than before, because libavformat leaves out the delay that Opus adds when it copies.
void shorten_video(const std::filesystem::path& path, double seconds, const std::string& comment);

}  // namespace tachy
