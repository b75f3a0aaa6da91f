#ifndef LONGWAVE_TESTS_SUPPORT_TEST_FOLDER_H_
#define LONGWAVE_TESTS_SUPPORT_TEST_FOLDER_H_

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "common/base/check.h"

namespace longwave {

// An empty folder on the machine's disk for as long as it lives.
class TestFolder {
 public:
  TestFolder() : path_((std::filesystem::temp_directory_path() / "longwave-test-XXXXXX").string()) {
    LONGWAVE_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~TestFolder() {
    std::error_code ignored;  // where a test has failed, something may still write there
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_SUPPORT_TEST_FOLDER_H_
