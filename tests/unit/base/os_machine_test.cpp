// Tests the facts that base/os reports about the machine: memory, processors, time, addresses.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <thread>

#include "base/os/memory.h"
#include "base/os/network.h"
#include "base/os/nvidia.h"
#include "base/os/processors.h"
#include "base/os/time.h"

namespace tachy::os {
namespace {

TEST(OsMachine, BlocksLieOnTheirBoundaries) {
  for (const size_t alignment : {size_t{64}, size_t{4096}, size_t{2} << 20})
    for (const size_t bytes : {size_t{1}, size_t{100}, size_t{5} << 20}) {
      void* const block = allocate_aligned(bytes, alignment);
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u);
      if (alignment >= 4096) prefer_huge_pages(block, bytes);
      static_cast<char*>(block)[bytes - 1] = 1;
      free_aligned(block);
    }
  EXPECT_EQ(allocate_aligned(SIZE_MAX / 2, 64), nullptr);
  free_aligned(nullptr);
}

TEST(OsMachine, MemoryIsToldInBytes) {
  const MachineMemory machine = machine_memory();
  EXPECT_GE(machine.total, uint64_t{64} << 20);
  EXPECT_LE(machine.available, machine.total);
  for (const ContainerMemory& container : container_memory()) EXPECT_LE(container.limit, uint64_t{1} << 60);
  if (const auto space = address_space()) EXPECT_GT(space->used, 0u);
}

TEST(OsMachine, Processors) {
  EXPECT_GE(online_processors(), 1);
  if (const auto allowed = allowed_processors()) {
    EXPECT_GE(*allowed, 1);
    EXPECT_LE(*allowed, online_processors());
  }
  EXPECT_GE(processor_quota(), 0);
  const ProcessorFacts facts = processor_facts();
  for (const auto& cache : facts.caches) EXPECT_FALSE(cache.level.empty());
#if defined(__x86_64__)
  EXPECT_FALSE(facts.name.empty());
  EXPECT_FALSE(facts.features.empty());
  EXPECT_FALSE(has_arm_bf16());
#else
  EXPECT_FALSE(request_tiles());
#endif
}

TEST(OsMachine, SleepingTakesNoProcessor) {
  const double begin = processor_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const double slept = processor_seconds() - begin;
  EXPECT_LT(slept, 0.1);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  while (std::chrono::steady_clock::now() < end) {
  }
  EXPECT_GT(processor_seconds() - begin, slept);
}

TEST(OsMachine, Addresses) {
  EXPECT_EQ(ipv4_address("127.0.0.1"), (std::array<uint8_t, 4>{127, 0, 0, 1}));
  for (const char* text : {"", "127.1", "1.2.3", "1.2.3.256", "1.2.3.4 ", "localhost", "::1"})
    EXPECT_FALSE(ipv4_address(text)) << text;
  EXPECT_TRUE(is_ipv6_address("::1"));
  EXPECT_TRUE(is_ipv6_address("fe80::1:2"));
  for (const char* text : {"", "[::1]", "127.0.0.1", ":::", "name"})
    EXPECT_FALSE(is_ipv6_address(text)) << text;
  EXPECT_FALSE(machine_name().empty());
}

TEST(OsMachine, AddressesAreBytesAndText) {
  for (const char* text : {"127.0.0.1", "255.0.10.1", "::1", "2001:db8::ff00:42:8329", "fe80::1"}) {
    const auto address = ip_address(std::string(text));
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(to_string(*address), text);
    EXPECT_EQ(address->six, std::string(text).find(':') != std::string::npos);
  }
  for (const char* text : {"", "name", "1.2.3", "[::1]", "::1%lo"})
    EXPECT_FALSE(ip_address(std::string(text))) << text;
  sockaddr_in four{};
  four.sin_family = AF_INET, four.sin_addr.s_addr = htonl(0x01020304);
  EXPECT_EQ(to_string(ip_address(&four, sizeof four).value()), "1.2.3.4");
  EXPECT_FALSE(ip_address(&four, 2));
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6, six.sin6_addr.s6_addr[15] = 1;
  EXPECT_EQ(to_string(ip_address(&six, sizeof six).value()), "::1");
  EXPECT_FALSE(ip_address(&six, sizeof four));
  sockaddr other{};
  other.sa_family = AF_UNIX;
  EXPECT_FALSE(ip_address(&other, sizeof other));
}

TEST(OsMachine, ADriversVersionIsANumber) {
  const std::string version = nvidia_driver_version();
  EXPECT_EQ(version.find_first_not_of("0123456789."), version.npos) << version;
}

}  // namespace
}  // namespace tachy::os
