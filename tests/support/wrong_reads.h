#ifndef LONGWAVE_TESTS_SUPPORT_WRONG_READS_H_
#define LONGWAVE_TESTS_SUPPORT_WRONG_READS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "tests/support/sim_file_system.h"
#include "tests/support/wrapped_file_system.h"

namespace longwave {

// A file system one of whose reads goes wrong in one bit: number `wrong`, counted from 0. The bit
// is in the byte at `place` / 2 of what is read: 0 is the first, 2 the last one.
class WrongReads final : public WrappedFileSystem {
 public:
  WrongReads(FileSystem* files, uint64_t wrong, int place)
      : WrappedFileSystem(files), wrong_(wrong), place_(place) {}

  uint64_t reads() const { return reads_; }

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenToRead(const std::string& path) override {
    LONGWAVE_ASSIGN_OR_RETURN(auto file, WrappedFileSystem::OpenToRead(path));
    return std::make_unique<Readable>(this, std::move(file));
  }

 private:
  class Readable final : public ReadableFile {
   public:
    Readable(WrongReads* files, std::unique_ptr<ReadableFile> file)
        : files_(files), file_(std::move(file)) {}
    absl::StatusOr<uint64_t> Size() const override { return file_->Size(); }
    absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
      LONGWAVE_RETURN_IF_ERROR(file_->ReadAt(offset, out));
      if (out.empty() || files_->reads_++ != files_->wrong_) return absl::OkStatus();
      out[(out.size() - 1) * static_cast<size_t>(files_->place_) / 2] ^= std::byte{4};
      return absl::OkStatus();
    }

   private:
    WrongReads* const files_;
    const std::unique_ptr<ReadableFile> file_;
  };
  std::unique_ptr<WritableFile> Wrap(const std::string&,
                                     std::unique_ptr<WritableFile> file) override {
    return file;
  }

  const uint64_t wrong_;
  const int place_;
  uint64_t reads_ = 0;
};

// Calls `start` with a copy of the disk, again and again, each time with another read wrong.
// Expects of each call the files that a start without a wrong read leaves in `folders`. Returns the
// number of reads of a start.
inline uint64_t ExpectWrongReadsToChangeNothing(const SimFileSystem& disk,
                                                const std::vector<std::string>& folders,
                                                absl::FunctionRef<void(FileSystem&)> start) {
  const auto files_after = [&](uint64_t wrong, int place, uint64_t* reads) {
    const std::unique_ptr<SimFileSystem> copy = disk.Copy(1);
    WrongReads files(copy.get(), wrong, place);
    start(files);
    *reads = files.reads();
    std::map<std::string, Buffer> found;
    for (const std::string& folder : folders) {
      const std::vector<std::string> names = copy->List(folder).value();
      for (const std::string& name : names) {
        const std::string path = JoinPath(folder, name);
        found[path] = ReadWhole(*copy, path, uint64_t{1} << 30).value();
      }
    }
    return found;
  };
  uint64_t count = 0;
  const auto wanted = files_after(~uint64_t{0}, 0, &count);
  for (uint64_t wrong = 0; wrong < count; ++wrong) {
    for (int place = 0; place <= 2; ++place) {
      SCOPED_TRACE(testing::Message() << "read " << wrong << ", place " << place);
      uint64_t reads = 0;
      EXPECT_TRUE(files_after(wrong, place, &reads) == wanted);
      if (testing::Test::HasFailure()) return count;
    }
  }
  return count;
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_WRONG_READS_H_
