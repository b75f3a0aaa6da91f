#include "common/base/memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LONGWAVE_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LONGWAVE_TEST_SANITIZED 1
#endif
#endif

namespace longwave {
namespace {

TEST(MachineMemory, IsReadFromTheMachine) {
  const auto memory = ReadMachineMemory();
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_GT(memory->available_bytes, 1e6);
  EXPECT_GT(memory->total_bytes, memory->available_bytes);
}

// On another thread than the main one, as all frames are, and more of them than one of the heaps
// takes of which such a thread's memory is made.
TEST(KeepFreedMemory, FramesOfAMegabyteAreNotClearedByTheSystemEachTime) {
#ifdef LONGWAVE_TEST_SANITIZED
  GTEST_SKIP() << "a sanitizer has an allocator of its own";
#endif
  const auto page_faults = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
  };
  const auto use_frames = [] {
    constexpr size_t kFrameBytes = size_t{1} << 20;
    std::array<std::unique_ptr<std::byte[]>, 200> frames;
    for (auto& frame : frames) {
      frame = std::make_unique_for_overwrite<std::byte[]>(kFrameBytes);
      std::memset(frame.get(), 1, kFrameBytes);
    }
  };
  for (const char* name :
       {"GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"}) {
    unsetenv(name);
  }
  KeepFreedMemory();
  long faults = 0;
  std::thread([&] {
    use_frames();
    const long before = page_faults();
    for (int i = 0; i < 10; ++i) use_frames();
    faults = page_faults() - before;
  }).join();
  EXPECT_LT(faults, 1000);  // 512,000 pages were used
}

}  // namespace
}  // namespace longwave
