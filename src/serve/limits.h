// Limits for what a visitor of the page can use: every size, rate and time that a caller controls is bounded
// here.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tachy::serve {

struct PageLimits {
  size_t message_bytes = 1024;  // the most in one text message of the socket
  double messages_per_second = 120;
  double messages_at_once = 240;          // the most messages beyond the rate; after that the socket is read
                                          // only at the rate
  size_t events = 256;                    // events that may wait for a visitor who does not read
  size_t header_bytes = 8 << 10;          // the most in a request's header
  size_t upload_bytes = size_t{8} << 20;  // the most in a picture's file
  int64_t picture_pixels = 40'000'000;    // the most in the picture of that file
  int connections = 32;                   // the most that are open at once; further ones are closed as they
                                          // come
  double recording_seconds = 600;         // length of the video
  std::chrono::milliseconds request{10'000};  // until a request's header is complete
  std::chrono::milliseconds upload{60'000};   // until the body of an upload is complete
  // This applies while no key, movement or other order comes and nothing is held. The time in which a world
  // is about to begin does not count.
  std::chrono::milliseconds idle{60'000};
  std::chrono::milliseconds stalled{15'000};  // while frames wait but none is taken
  std::chrono::milliseconds farewell{1'000};  // for the last message and the closing handshake
  std::chrono::milliseconds alive{
      // This is the time from one message to the page until the next one, if there is nothing else to send.
      5'000};
};

}  // namespace tachy::serve
