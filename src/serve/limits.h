// What a visitor of the page may cost: every size, rate and time that a caller controls has a bound here.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tachy::serve {

struct PageLimits {
  size_t message_bytes = 1024;  // of one text message of the socket
  double messages_per_second = 120;
  double messages_at_once = 240;              // beyond the rate; then the socket is read no faster than that
  size_t events = 256;                        // that wait for a visitor who does not read
  size_t header_bytes = 8 << 10;              // of a request
  size_t upload_bytes = size_t{8} << 20;      // of a picture's file
  int64_t picture_pixels = 40'000'000;        // of the picture in it
  int connections = 32;                       // open at once; more are closed as they come
  double recording_seconds = 600;             // of video
  std::chrono::milliseconds request{10'000};  // until a request's header is there
  std::chrono::milliseconds upload{60'000};   // until its body is
  // Without a key, a movement or another order, and with nothing held; a world that is about to begin is waited for.
  std::chrono::milliseconds idle{60'000};
  std::chrono::milliseconds stalled{15'000};  // with frames that wait, while none is taken
  std::chrono::milliseconds farewell{1'000};  // for the last message and the closing handshake
  std::chrono::milliseconds alive{
      5'000};  // from one word to the page to the next, should nothing else be said
};

}  // namespace tachy::serve
