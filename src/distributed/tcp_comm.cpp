#include "distributed/tcp_comm.h"

#include <cstring>
#include <vector>

namespace tachy::distributed {
namespace {

std::span<uint8_t> bytes_of_tensor(const Tensor& t) {
  if (!t.defined()) return {};
  return {static_cast<uint8_t*>(t.data), static_cast<size_t>(t.bytes())};
}

// A rank's own part is copied, unless it is there already.
void take_own(const Tensor& from, const Tensor& to) {
  const auto given = bytes_of_tensor(from), wanted = bytes_of_tensor(to);
  check(given.size() == wanted.size(), ErrorCode::internal, "ranks: {} bytes were sent where {} are expected",
        given.size(), wanted.size());
  if (!given.empty() && given.data() != wanted.data()) std::memcpy(wanted.data(), given.data(), given.size());
}

}  // namespace

// A frame goes from each rank to each other one, even if it has no content: what does not fit together is
// then an error and no wait.
void TcpComm::exchange(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream) {
  check(mesh_, ErrorCode::internal, "ranks: rank {} has not met the others", rank_);
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (int p = 0; p < count_; ++p) {
    const Tensor &sent = from[static_cast<size_t>(p)], &wanted = to[static_cast<size_t>(p)];
    if (p == rank_) {
      take_own(sent, wanted);
      continue;
    }
    out.push_back({first_ + p, FrameKind::tensor, bytes_of_tensor(sent)});
    in.push_back({.from = first_ + p, .kind = FrameKind::tensor, .bytes = bytes_of_tensor(wanted)});
  }
  mesh_->transfer(out, in, stream.hooks.cancel);
}

void TcpComm::collect(const Tensor& part, std::span<const Tensor> to, Stream& stream) {
  std::vector<Tensor> from(static_cast<size_t>(count_)), room(static_cast<size_t>(count_));
  from[0] = part;
  if (rank_ == 0) room.assign(to.begin(), to.end());
  exchange(from, room, stream);
}

}  // namespace tachy::distributed
