#ifndef LONGWAVE_TESTS_UNIT_STORE_TEMPORARY_FOLDER_H_
#define LONGWAVE_TESTS_UNIT_STORE_TEMPORARY_FOLDER_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "common/base/check.h"

namespace longwave {

// An empty folder on the machine's disk for as long as it lives.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_(testing::TempDir() + "/longwave-store-XXXXXX") {
    LONGWAVE_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_UNIT_STORE_TEMPORARY_FOLDER_H_
