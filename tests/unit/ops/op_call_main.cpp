// Runs ops on tensors from files, for tests/reference/ops.py:
//   op_call FOLDER      FOLDER/calls.json lists {"op", "impl", "options"}; call i reads the tensors of
//                       FOLDER/i.safetensors and writes FOLDER/i.out.safetensors
#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <list>

#include "op_call.h"
#include "ops/impl_table.h"
#include "weights/safetensors.h"

namespace tachy {
namespace {

void run_call(const nlohmann::json& entry, const std::filesystem::path& in, const std::filesystem::path& out,
              Stream& stream) {
  std::list<Buffer> buffers;
  std::vector<NamedTensor> outputs;
  OpCall call{.op = entry.at("op"), .options = entry.at("options")};
  const auto source = open_safetensors(in);
  for (const auto& e : source->entries()) {
    Tensor t(nullptr, e.dtype, e.dims);
    buffers.emplace_back(static_cast<size_t>(t.bytes()));
    t.data = buffers.back().data();
    std::copy_n(static_cast<const char*>(e.data), e.bytes, static_cast<char*>(t.data));
    call.inputs[e.name] = t;
  }
  call.make_output = [&](const std::string& name, DType dtype, std::span<const int64_t> dims) {
    Tensor t(nullptr, dtype, dims);
    buffers.emplace_back(static_cast<size_t>(t.bytes()));
    t.data = buffers.back().data();
    std::fill_n(static_cast<uint8_t*>(t.data), t.bytes(), 0xff);
    outputs.push_back({name, t});
    return t;
  };
  const std::string impl = entry.value("impl", "");
  if (!impl.empty()) ops::set_forced_impl(call.op.c_str(), impl.c_str());
  call_op(call, stream);
  ops::set_forced_impl(call.op.c_str(), nullptr);
  write_safetensors(out, std::move(outputs));
}

}  // namespace
}  // namespace tachy

int main(int argc, char** argv) {
  try {
    tachy::require(argc == 2, "expected one folder, got {} arguments", argc - 1);
    const std::filesystem::path folder = argv[1];
    const auto calls = nlohmann::json::parse(std::ifstream(folder / "calls.json"));
    tachy::ThreadPool pool(2);
    tachy::Arena arena(64 << 20);
    tachy::Stream stream{&arena, &pool};
    for (size_t i = 0; i < calls.size(); ++i)
      tachy::run_call(calls[i], folder / fmt::format("{}.safetensors", i),
                      folder / fmt::format("{}.out.safetensors", i), stream);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "op_call: {}\n", error.what());
    return 2;
  }
}
