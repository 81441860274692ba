// A job: one video, the settings it is made by, where it goes and what is written beside it. What a command line, a server's request or
// a program asks for becomes one of these; a JobRunner makes it.
#pragma once

#include <filesystem>
#include <string>

#include "jobs/settings.h"

namespace tachy::jobs {

struct JobSpec {
  RunSettings settings;
  std::string from;  // where they were read from, for messages; "": nowhere
  std::filesystem::path output;
  // false: the output's name is made from the prompt, and the next one is taken where it is there
  bool named = true;
  bool drawn = false;        // whether the seed was
  int crf = -1;              // as in VideoOptions
  std::string encode_speed;  // the same
  bool streamed = false;     // the video is written in pieces that can be read while it grows
  bool resume = false;       // goes on with what an interrupted run has left
  double state_every = 5;    // seconds between two states, at least
  std::string preview;       // a PNG of the latents after each step; "": none
  std::string save_latents;  // a file of the final latents; "": none
  std::string profile;  // a name that the front end writes a profile to, claimed with the others; "": none
};

// Returns where the job's model lies: a job that names none gets the one that ships. Throws as shipped_model() does.
std::filesystem::path model_path(const RunSettings& settings);

// A video that streams and does not say how is one of Self-Forcing's kind: fills in its preset. block_given: `block` was asked for,
// which says how even where it is 0, the whole clip at once.
void settle_stream(VideoRequest& request, bool block_given);

}  // namespace tachy::jobs
