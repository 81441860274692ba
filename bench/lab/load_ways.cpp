// Compares ways of bringing weights from a file in the page cache to a GPU, and the engine's own rate.
//
//   lab_load_ways FOLDER [LAYERS]
//
// Writes FOLDER/encoder.safetensors (umT5-xxl's layers in bf16, 0.39 GB each, 24 by default) if it is not
// there. Then it prints GB/s of these ways: a copy from page-locked memory (the upper limit); the file read
// by many threads, into memory alone and through a ring of page-locked slots to the GPU, by pread, through a
// fresh mapping (a page fault at every first touch) and through one whose pages are populated slice by slice;
// slices of the mapping page-locked in place; page-locking and allocating alone; and the engine's own loading
// of the encoder.
#include <cuda_runtime.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "cuda/gpu.h"
#include "models/umt5/umt5_encoder.h"
#include "weights/scope.h"
#include "weights/tensor_source.h"

using namespace tachy;

namespace {

constexpr size_t kMiB = size_t{1} << 20;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void ok(cudaError_t status, const char* what) {
  check(status == cudaSuccess, ErrorCode::device, "{}: {}", what, cudaGetErrorString(status));
}

// Writes a file in which all tensors have data of their own; its values do not matter.
void write_encoder(const std::filesystem::path& path, const Umt5Config& c) {
  nlohmann::ordered_json header;
  uint64_t at = 0;
  const auto add = [&](const std::string& name, std::vector<int64_t> dims) {
    uint64_t bytes = 2;
    for (const int64_t d : dims) bytes *= static_cast<uint64_t>(d);
    header[name] = {{"dtype", "BF16"}, {"shape", dims}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  };
  add("shared.weight", {c.vocab_size, c.d_model});
  const int64_t inner = c.num_heads * c.d_kv;
  for (int64_t i = 0; i < c.num_layers; ++i) {
    const std::string layer = fmt::format("encoder.block.{}.layer.", i), sa = layer + "0.SelfAttention.";
    for (const char* name : {"q", "k", "v"}) add(sa + name + ".weight", {inner, c.d_model});
    add(sa + "o.weight", {c.d_model, inner});
    add(sa + "relative_attention_bias.weight", {c.num_buckets, c.num_heads});
    add(layer + "0.layer_norm.weight", {c.d_model}), add(layer + "1.layer_norm.weight", {c.d_model});
    for (const char* name : {"wi_0", "wi_1"})
      add(layer + "1.DenseReluDense." + name + ".weight", {c.d_ff, c.d_model});
    add(layer + "1.DenseReluDense.wo.weight", {c.d_model, c.d_ff});
  }
  add("encoder.final_layer_norm.weight", {c.d_model});
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  check(fd >= 0, ErrorCode::io, "{}: cannot create", path.string());
  const uint64_t length = text.size();
  std::string head(reinterpret_cast<const char*>(&length), 8);
  head += text;
  check(::pwrite(fd, head.data(), head.size(), 0) == static_cast<ssize_t>(head.size()), ErrorCode::io,
        "write");
  std::vector<uint64_t> block(8 * kMiB);  // 64 MiB
  std::mt19937_64 random(1);
  for (auto& word : block) word = random();
  std::vector<std::thread> threads;
  std::atomic<uint64_t> next{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (uint64_t begin; (begin = next.fetch_add(64 * kMiB)) < at;) {
        const uint64_t count = std::min<uint64_t>(64 * kMiB, at - begin);
        for (uint64_t done = 0; done < count;) {
          const ssize_t n = ::pwrite(fd, reinterpret_cast<const char*>(block.data()) + done, count - done,
                                     static_cast<off_t>(head.size() + begin + done));
          if (n <= 0) std::abort();
          done += static_cast<uint64_t>(n);
        }
      }
    });
  for (auto& t : threads) t.join();
  ::close(fd);
}

enum class Way { pread, mapped, populated, in_place };
const char* name_of(Way way) {
  const char* names[] = {"pread", "mapping", "mapping, populated", "mapping, page-locked in place"};
  return names[static_cast<int>(way)];
}

struct Lab {
  std::filesystem::path path;
  int fd = -1;
  size_t bytes = 0;
  char* device = nullptr;
  size_t device_bytes = 0;
  std::vector<cudaStream_t> streams;
};

void fill(const Lab& lab, Way way, const char* map, char* slot, size_t begin, size_t count) {
  if (way == Way::pread) {
    for (size_t done = 0; done < count;) {
      const ssize_t n = ::pread(lab.fd, slot + done, count - done, static_cast<off_t>(begin + done));
      if (n <= 0) std::abort();
      done += static_cast<size_t>(n);
    }
    return;
  }
  if (way == Way::populated &&
      ::madvise(const_cast<char*>(map) + begin, count, 22 /* MADV_POPULATE_READ */) != 0)
    std::abort();
  std::memcpy(slot, map + begin, count);
}

// Returns the GB/s for the whole file, to the device, or, if to_device is false, only into the slots.
double rate(const Lab& lab, Way way, int threads, size_t slot_bytes, size_t ring_bytes, bool to_device,
            size_t streams = 1) {
  const size_t slots = ring_bytes / slot_bytes;
  char* ring = nullptr;
  ok(cudaMallocHost(reinterpret_cast<void**>(&ring), ring_bytes), "cudaMallocHost");
  std::vector<std::mutex> mutexes(slots);
  std::vector<cudaEvent_t> events(slots);
  for (auto& event : events) ok(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event");
  const char* map = nullptr;
  if (way != Way::pread)
    map = static_cast<const char*>(::mmap(nullptr, lab.bytes, PROT_READ, MAP_PRIVATE, lab.fd, 0));
  const double start = now();
  std::atomic<size_t> next{0};
  std::string error;
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t)
    workers.emplace_back([&] {
      const auto work = [&](size_t tile) {
        const size_t begin = tile * slot_bytes, count = std::min(slot_bytes, lab.bytes - begin),
                     s = tile % slots;
        const std::lock_guard lock(mutexes[s]);
        ok(cudaEventSynchronize(events[s]), "sync");
        const char* from = ring + s * slot_bytes;
        if (way == Way::in_place) {
          from = map + begin;
          ok(cudaHostRegister(const_cast<char*>(from), count, cudaHostRegisterReadOnly), "cudaHostRegister");
        } else {
          fill(lab, way, map, ring + s * slot_bytes, begin, count);
        }
        if (!to_device) return;
        const size_t at = begin % (lab.device_bytes - slot_bytes) / 4096 * 4096;
        cudaStream_t stream = lab.streams[tile % streams];
        ok(cudaMemcpyAsync(lab.device + at, from, count, cudaMemcpyHostToDevice, stream), "copy");
        ok(cudaEventRecord(events[s], stream), "record");
      };
      try {
        for (size_t tile; (tile = next.fetch_add(1)) * slot_bytes < lab.bytes;) work(tile);
      } catch (const Error& e) {
        next = lab.bytes / slot_bytes + 1;  // makes the others end, too
        const std::lock_guard lock(mutexes[0]);
        error = e.message();
      }
    });
  for (auto& worker : workers) worker.join();
  check(error.empty(), ErrorCode::device, "{}", error);
  for (cudaStream_t stream : lab.streams) ok(cudaStreamSynchronize(stream), "sync");
  const double seconds = now() - start;
  if (way == Way::in_place)
    for (size_t begin = 0; begin < lab.bytes; begin += slot_bytes)
      cudaHostUnregister(const_cast<char*>(map) + begin);
  if (map) ::munmap(const_cast<char*>(map), lab.bytes);
  for (auto& event : events) cudaEventDestroy(event);
  cudaFreeHost(ring);
  return static_cast<double>(lab.bytes) / seconds / 1e9;
}

void costs(const Lab& lab) {
  for (const size_t bytes : {16 * kMiB, 64 * kMiB, 256 * kMiB}) {
    void* p = nullptr;
    const double start = now();
    ok(cudaMallocHost(&p, bytes), "cudaMallocHost");
    fmt::print("page-locking {} MiB: {:.1f} ms\n", bytes / kMiB, (now() - start) * 1e3);
    cudaFreeHost(p);
  }
  std::vector<void*> parts;
  double start = now();
  for (int layer = 0; layer < 24; ++layer)
    for (const size_t mib : {32, 32, 32, 32, 80, 80, 80})
      ok(cudaMalloc(&parts.emplace_back(), mib * kMiB), "cudaMalloc");
  fmt::print("cudaMalloc of 24 layers' {} tensors: {:.1f} ms", parts.size(), (now() - start) * 1e3);
  start = now();
  for (void* p : parts) cudaFree(p);
  fmt::print(", cudaFree {:.1f} ms\n", (now() - start) * 1e3);
  void* pinned = nullptr;
  ok(cudaMallocHost(&pinned, 512 * kMiB), "cudaMallocHost");
  std::memset(pinned, 1, 512 * kMiB);
  for (const size_t piece : {512 * kMiB, 2 * kMiB}) {
    start = now();
    for (int pass = 0; pass < 4; ++pass)
      for (size_t begin = 0; begin < 512 * kMiB; begin += piece)
        ok(cudaMemcpyAsync(lab.device + begin, static_cast<char*>(pinned) + begin, piece,
                           cudaMemcpyHostToDevice, lab.streams[0]),
           "copy");
    ok(cudaStreamSynchronize(lab.streams[0]), "sync");
    fmt::print("page-locked memory to the GPU in pieces of {} MiB: {:.1f} GB/s\n", piece / kMiB,
               4 * 512 * 1.048576e6 / (now() - start) / 1e9);
  }
  cudaFreeHost(pinned);
}

void engine(const std::filesystem::path& path, const Umt5Config& config, cuda::Gpu& gpu) {
  ThreadPool pool(available_processors());
  for (int i = 0; i < 3; ++i) {
    Arena none(0);
    Stream stream{
        .arena = &none, .pool = &pool, .gpu = &gpu, .memory = &gpu, .precision = {.activation = DType::bf16}};
    const auto source = open_weights(path);
    nn::ParamStore store({}, stream);
    const double start = now();
    const auto model = load_component(source, "text encoder", {}, [&](const Scope& scope) {
      return std::make_unique<Umt5Encoder>(scope, config, store);
    });
    const double queued = now() - start;
    gpu.synchronize();
    const double seconds = now() - start;
    fmt::print("the engine's loading of the encoder, run {}: {:.3f} s ({:.3f} until queued), {:.1f} GB/s\n",
               i + 1, seconds, queued, static_cast<double>(store.bytes()) / seconds / 1e9);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    require(argc >= 2, "usage: lab_load_ways FOLDER [LAYERS]");
    Umt5Config config{.vocab_size = 1024};
    if (argc > 2) config.num_layers = std::atoll(argv[2]);
    Lab lab{.path = std::filesystem::path(argv[1]) / "encoder.safetensors"};
    if (!std::filesystem::exists(lab.path)) {
      const double start = now();
      write_encoder(lab.path, config);
      fmt::print("written in {:.1f} s\n", now() - start);
    }
    const auto gpu = cuda::open_gpu(0);
    lab.fd = ::open(lab.path.c_str(), O_RDONLY);
    lab.bytes = std::filesystem::file_size(lab.path);
    lab.device_bytes = 1024 * kMiB;
    ok(cudaMalloc(reinterpret_cast<void**>(&lab.device), lab.device_bytes), "cudaMalloc");
    lab.streams.resize(2);
    for (auto& stream : lab.streams) ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    const int all = available_processors();
    fmt::print("{:.2f} GB, {} processors\n", static_cast<double>(lab.bytes) / 1e9, all);
    costs(lab);
    for (const Way way : {Way::pread, Way::mapped, Way::populated})
      for (const int threads : {1, 4, all})
        fmt::print("{}, {} threads, into memory alone: {:.1f} GB/s\n", name_of(way), threads,
                   rate(lab, way, threads, 2 * kMiB, 64 * kMiB, false));
    for (const Way way : {Way::pread, Way::mapped, Way::populated})
      for (const size_t mib : {1, 2, 4})
        fmt::print("{}, {} threads, slots of {} MiB in 64, to the GPU: {:.1f} GB/s\n", name_of(way), all, mib,
                   rate(lab, way, all, mib * kMiB, 64 * kMiB, true));
    for (const size_t ring : {32, 128})
      fmt::print("pread, {} threads, slots of 2 MiB in {}: {:.1f} GB/s\n", all, ring,
                 rate(lab, Way::pread, all, 2 * kMiB, ring * kMiB, true));
    fmt::print("pread, {} threads, slots of 2 MiB in 64, two queues: {:.1f} GB/s\n", all,
               rate(lab, Way::pread, all, 2 * kMiB, 64 * kMiB, true, 2));
    fmt::print("pread, 8 threads, slots of 2 MiB in 64: {:.1f} GB/s\n",
               rate(lab, Way::pread, 8, 2 * kMiB, 64 * kMiB, true));
    std::fflush(stdout);
    engine(lab.path, config, *gpu);
    std::fflush(stdout);
    try {
      fmt::print("{}, {} threads, pieces of 16 MiB: {:.1f} GB/s\n", name_of(Way::in_place), all,
                 rate(lab, Way::in_place, all, 16 * kMiB, 64 * kMiB, true));
    } catch (const Error& e) {
      fmt::print("{}: {}\n", name_of(Way::in_place), e.message());
    }
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "lab_load_ways: {}\n", e.what());
    return 1;
  }
}
