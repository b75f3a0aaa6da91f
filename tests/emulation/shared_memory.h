#ifndef LONGWAVE_TESTS_EMULATION_SHARED_MEMORY_H_
#define LONGWAVE_TESTS_EMULATION_SHARED_MEMORY_H_

#include <cstddef>
#include <string>
#include <vector>

namespace longwave::emulation {

// The shared memory of the block that runs: objects by their declarations. Between and around them
// are bytes that no one may write: poisoned under the address sanitizer, elsewhere a pattern that
// is looked at when the block ends.
class SharedMemory {
 public:
  static constexpr size_t kBytesMax = size_t{48} << 10;  // that a kernel can declare

  SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  void BeginBlock();
  // Refuses a block that has written between the objects.
  void EndBlock();

  void* Object(const void* key, size_t bytes, size_t alignment);

  // As DescribeBlockMemory.
  std::string Describe(const void* address) const;

 private:
  struct Entry {
    const void* key;
    std::byte* begin;
    size_t bytes;
  };
  // Bytes that must not be written.
  struct Margin {
    std::byte* begin;
    size_t bytes;
  };
  std::byte* Place(std::byte* begin, size_t bytes);
  void AddMargin(std::byte* begin, size_t bytes);

  std::byte* mapping_;
  size_t mapped_, guard_bytes_;
  std::byte* next_ = nullptr;  // the end of the objects so far
  std::vector<Entry> entries_;
  std::vector<Margin> margins_;
};

}  // namespace longwave::emulation

#endif  // LONGWAVE_TESTS_EMULATION_SHARED_MEMORY_H_
