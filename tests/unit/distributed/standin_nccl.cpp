// A library in place of NCCL, for tests without a GPU. Its ranks are threads of one process, and their tensors lie in the
// host's memory. What is sent waits in a list, and is taken when the receiver asks how its exchange goes: so calls are in
// progress for a while, as NCCL's are where nobody waits in them.
//
// STANDIN_NCCL_VERSION is the version that it claims to be. STANDIN_NCCL_FAILS=3 lets rank 3 see a remote error.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int kSuccess = 0, kInvalidArgument = 4, kInvalidUsage = 5, kRemoteError = 6, kInProgress = 7;

struct Id {
  char bytes[128];
};

struct Config {
  size_t size;
  unsigned magic, version;
  int blocking;
};

using Bytes = std::vector<uint8_t>;

struct World {
  int ranks = 0, here = 0;
  std::map<std::pair<int, int>, std::deque<Bytes>> sent;  // by sender and receiver
};

struct Receiving {
  int from;
  void* to;
  size_t bytes;
};

struct Handle {
  std::shared_ptr<World> world;
  int rank;
  Handle** made;  // written again when the ranks have joined or failed to
  bool joining = true;
  std::deque<Receiving> receiving;
};

std::mutex g_mutex;
std::map<std::string, std::shared_ptr<World>> g_worlds;
std::set<Handle*> g_handles;  // those that are in use
uint64_t g_ids = 0;

int number_in(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  *version = number_in("STANDIN_NCCL_VERSION", 22809);
  return kSuccess;
}

int ncclGetUniqueId(Id* id) {
  const std::lock_guard lock(g_mutex);
  std::memset(id, 0, sizeof *id);
  ++g_ids;
  std::memcpy(id->bytes, &g_ids, sizeof g_ids);
  id->bytes[127] = 'z';  // what follows a zero counts, too
  return kSuccess;
}

int ncclCommInitRankConfig(Handle** out, int ranks, Id id, int rank, Config* config) {
  const std::lock_guard lock(g_mutex);
  if (config->size < 20 || config->magic != 0xcafebeef || config->blocking != 0 || id.bytes[127] != 'z')
    return kInvalidArgument;
  std::shared_ptr<World>& world = g_worlds[std::string(id.bytes, sizeof id.bytes)];
  if (!world) world = std::make_shared<World>(World{.ranks = ranks, .here = 0, .sent = {}});
  if (world->ranks != ranks) return kInvalidUsage;
  ++world->here;
  *out = new Handle{.world = world, .rank = rank, .made = out, .receiving = {}};
  g_handles.insert(*out);
  return kInProgress;
}

int ncclCommGetAsyncError(Handle* comm, int* state) {
  const std::lock_guard lock(g_mutex);
  *state = kSuccess;
  if (number_in("STANDIN_NCCL_FAILS", -1) == comm->rank) {
    *state = kRemoteError;
    return kSuccess;
  }
  if (comm->world->here < comm->world->ranks)
    *state = kInProgress;
  else if (std::exchange(comm->joining, false))
    *comm->made = comm;
  while (!comm->receiving.empty()) {
    const Receiving& next = comm->receiving.front();
    std::deque<Bytes>& waiting = comm->world->sent[{next.from, comm->rank}];
    if (waiting.empty()) break;
    if (waiting.front().size() != next.bytes) std::abort();  // NCCL would hang or write elsewhere
    std::memcpy(next.to, waiting.front().data(), next.bytes);
    waiting.pop_front(), comm->receiving.pop_front();
  }
  if (!comm->receiving.empty()) *state = kInProgress;
  return kSuccess;
}

// NCCL waits here for its own thread, which still writes the handle that the ranks were to join by.
int ncclCommAbort(Handle* comm) {
  const std::lock_guard lock(g_mutex);
  if (g_handles.erase(comm) == 0) std::abort();  // NCCL would use memory that it has freed
  if (comm->joining) *comm->made = comm;
  delete comm;
  return kSuccess;
}

int ncclGroupStart() { return kSuccess; }
int ncclGroupEnd() { return kInProgress; }

int ncclSend(const void* data, size_t count, int type, int peer, Handle* comm, void*) {
  const std::lock_guard lock(g_mutex);
  if (type != 1 || peer == comm->rank || peer < 0 || peer >= comm->world->ranks) return kInvalidArgument;
  const auto* const bytes = static_cast<const uint8_t*>(data);
  comm->world->sent[{comm->rank, peer}].emplace_back(bytes, bytes + count);
  return kSuccess;
}

int ncclRecv(void* data, size_t count, int type, int peer, Handle* comm, void*) {
  const std::lock_guard lock(g_mutex);
  if (type != 1 || peer == comm->rank || peer < 0 || peer >= comm->world->ranks) return kInvalidArgument;
  comm->receiving.push_back({peer, data, count});
  return kSuccess;
}

const char* ncclGetErrorString(int result) {
  return result == kRemoteError ? "remote process exited" : "an error";
}
const char* ncclGetLastError(Handle*) { return ""; }
}
