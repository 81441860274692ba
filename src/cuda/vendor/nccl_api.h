// This declares the functions of NCCL that are used here, so that building needs no header of NCCL. They are those of
// nccl.h from 2.28 to 2.30. The functions are looked up when the library is opened (nccl.h).
#pragma once

#include <climits>
#include <cstddef>

#include "cuda/vendor/vendor_library.h"

namespace tachy::cuda {

// The least version, in NCCL's numbering: major·10000 + minor·100 + patch.
inline constexpr int kLeastNccl = 22800;

struct NcclHandle;  // ncclComm

enum NcclResult : int { kNcclSuccess = 0, kNcclInProgress = 7 };  // and errors
inline constexpr int kNcclBytes = 1;                              // ncclUint8

struct NcclId {
  char bytes[128];
};

// The beginning of ncclConfig_t. The library takes what lies beyond `size` as not given.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = kLeastNccl;
  int blocking = 0;
  int cluster_size = INT_MIN;  // not given
};
static_assert(sizeof(NcclConfig) == 24);

struct NcclApi {
  VendorLibrary library;
  NcclResult (*version)(int*) = nullptr;
  NcclResult (*new_id)(NcclId*) = nullptr;
  NcclResult (*join)(NcclHandle**, int ranks, NcclId, int rank, NcclConfig*) = nullptr;
  NcclResult (*state)(NcclHandle*, NcclResult*) = nullptr;
  NcclResult (*abort)(NcclHandle*) = nullptr;
  NcclResult (*begin_group)() = nullptr;
  NcclResult (*end_group)() = nullptr;
  NcclResult (*send)(const void*, size_t count, int type, int peer, NcclHandle*, void* queue) = nullptr;
  NcclResult (*receive)(void*, size_t count, int type, int peer, NcclHandle*, void* queue) = nullptr;
  const char* (*error_text)(NcclResult) = nullptr;
  const char* (*last_error)(NcclHandle*) = nullptr;

  void find_all() {
    const VendorLibrary& l = library;
    l.find("ncclGetUniqueId", new_id), l.find("ncclCommInitRankConfig", join);
    l.find("ncclCommGetAsyncError", state), l.find("ncclCommAbort", abort);
    l.find("ncclGroupStart", begin_group), l.find("ncclGroupEnd", end_group);
    l.find("ncclSend", send), l.find("ncclRecv", receive);
    l.find("ncclGetErrorString", error_text), l.find("ncclGetLastError", last_error);
  }
};

}  // namespace tachy::cuda
