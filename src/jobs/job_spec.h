// A job: one video, the settings that make it, its destination, and the files to write beside it. What a
// command line, a server's request or a program asks for becomes a JobSpec, and a JobRunner makes the video.
#pragma once

#include <filesystem>
#include <string>

#include "jobs/settings.h"

namespace tachy::jobs {

struct JobSpec {
  RunSettings settings;
  std::string from;  // the file that the settings were read from, for messages; "": none
  std::filesystem::path output;
  // With false, the output's name is made from the prompt; if that name is taken, the next free one is used.
  bool named = true;
  bool drawn = false;        // whether the seed was drawn at random
  int crf = -1;              // as in VideoOptions
  std::string encode_speed;  // as in VideoOptions
  bool streamed = false;     // writes the video in pieces that can be read while it grows
  bool resume = false;       // goes on with what an interrupted run has left
  // The settings in the video and beside it name files and the model without their folders, and hold the model's
  // fingerprint: the video may go to somebody else.
  bool private_paths = false;
  double state_every = 5;    // least number of seconds between two states
  std::string preview;       // a PNG of the latents after each step; "": none
  std::string save_latents;  // a file for the final latents; "": none
  // The front end writes a profile to this name, which is claimed with the others; "": none.
  std::string profile;
};

// Returns the path of the job's model: a job that names none gets the one that ships. Throws as
// shipped_model() does.
std::filesystem::path model_path(const RunSettings& settings);

// If a video streams and its request does not say how it is made, it is assumed to come from a model like
// Self-Forcing: fills in that preset. `block_given` says that `block` was asked for; even as 0, the whole
// clip at once, it says how the video is made.
void settle_stream(VideoRequest& request, bool block_given);

}  // namespace tachy::jobs
