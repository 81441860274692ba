// Mode canary: finds what an op changed but should not have.
#include "inspect/op_runner_impl.h"

namespace tachy {
namespace {

// Marks the block's bytes that belong to elements that the op writes.
std::vector<bool> written_bytes(const CaseMemory::Block& block, const BoundOp& op, CaseMemory& memory) {
  std::vector<bool> covered(static_cast<size_t>(block.bytes));
  for (const Tensor& t : written(op)) {
    if (memory.block_of(t.data) != &block) continue;
    for_each_element(t, [&](int64_t offset) {
      const int64_t at = static_cast<const char*>(t.data) - block.data + offset;
      for (int i = 0; i < dtype_size(t.dtype); ++i) covered[static_cast<size_t>(at + i)] = true;
    });
  }
  return covered;
}

}  // namespace

std::string damage_of(const CaseMemory::Block& block, std::span<const char> whole, const BoundOp& op,
                      CaseMemory& memory, int number) {
  const int64_t first = block.data - static_cast<const char*>(block.buffer.data());
  const auto size = static_cast<int64_t>(whole.size());
  for (int64_t i = 0; i < size; ++i) {
    if (i == first) i += block.bytes;
    if (i < size && static_cast<uint8_t>(whole[static_cast<size_t>(i)]) != CaseMemory::kGuard)
      return fmt::format("tensor {}: guard byte at {} was changed", number, i - first);
  }
  const char* data = whole.data() + first;
  if (block.input) {
    if (!block.output && std::memcmp(data, block.pristine.data(), block.pristine.size()) != 0)
      return fmt::format("tensor {}: an input was changed", number);
    return "";
  }
  const std::vector<bool> covered = written_bytes(block, op, memory);
  for (int64_t i = 0; i < block.bytes; ++i)
    if (!covered[static_cast<size_t>(i)] && static_cast<uint8_t>(data[i]) != 0xff)
      return fmt::format("tensor {}: byte {} between the rows of an output was changed", number, i);
  return "";
}

}  // namespace tachy
