#include "tensor/transfer.h"

#include <cstring>

namespace tachy {
namespace {

size_t checked_bytes(const Tensor& t, const Stream& stream) {
  check(t.contiguous(), ErrorCode::internal, "transfer: expected a contiguous tensor, got {}",
        shape_string(t));
  check(t.device.type != DeviceType::cuda || (stream.memory && stream.memory->device() == t.device),
        ErrorCode::internal, "transfer: a tensor on {} by a stream on {}", device_name(t.device),
        device_name(stream.memory ? stream.memory->device() : Device::cpu));
  return static_cast<size_t>(t.bytes());
}

}  // namespace

void upload(const void* host, const Tensor& to, const Stream& stream) {
  const size_t bytes = checked_bytes(to, stream);
  if (stream.measuring() || bytes == 0) return;
  if (stream.memory)
    stream.memory->upload(to.data, host, bytes);
  else
    std::memcpy(to.data, host, bytes);
}

void download(const Tensor& from, void* host, const Stream& stream) {
  const size_t bytes = checked_bytes(from, stream);
  if (stream.measuring() || bytes == 0) return;
  if (stream.memory)
    stream.memory->download(host, from.data, bytes);
  else
    std::memcpy(host, from.data, bytes);
}

void bring(const Tensor& from, const Tensor& to, const Stream& stream) {
  if (from.device == to.device)
    copy_bytes(from, to, stream);
  else
    upload(from.data, to, stream);
}

void copy_bytes(const Tensor& from, const Tensor& to, const Stream& stream) {
  const size_t bytes = checked_bytes(from, stream);
  check(bytes == checked_bytes(to, stream), ErrorCode::internal, "transfer: {} bytes into {}", bytes,
        to.bytes());
  if (stream.measuring() || bytes == 0) return;
  if (stream.memory)
    stream.memory->copy(to.data, from.data, bytes);
  else
    std::memcpy(to.data, from.data, bytes);
}

void zero(const Tensor& to, const Stream& stream) {
  const size_t bytes = checked_bytes(to, stream);
  if (stream.measuring() || bytes == 0) return;
  if (stream.memory)
    stream.memory->fill(to.data, 0, bytes);
  else
    std::memset(to.data, 0, bytes);
}

}  // namespace tachy
