// The measuring adapters, on parts that every machine has: loopback, a disk, and a program in the
// worker's place.
#include "cli/doctor/measure.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cli/doctor/examine.h"
#include "common/config/config.h"
#include "common/config/gpt_shape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/held_port.h"
#include "tests/support/test_folder.h"

namespace longwave {
namespace {

using ::testing::HasSubstr;

class DoctorFolder : public ::testing::Test {
 protected:
  void WriteWorker(const std::string& script) const {
    const std::string program = path_ + "/longwave-worker";
    std::ofstream(program) << "#!/bin/sh\n" << script << "\n";
    chmod(program.c_str(), 0755);
  }

  const TestFolder temporary_;
  const std::string path_ = temporary_.path();
};

TEST_F(DoctorFolder, AWorkerSaysWhereItWouldCompute) {
  WriteWorker("echo a library warns >&2; echo device cpu; echo why not cuda no driver, \"$2\"");
  const auto reading = MeasureWorker(path_, "auto");
  ASSERT_TRUE(reading.ok()) << reading.status();
  EXPECT_EQ(reading->device, "cpu");
  EXPECT_EQ(reading->why_not_cuda, "no driver, auto");
}

TEST_F(DoctorFolder, AWorkerThatDoesNotStartIsQuoted) {
  WriteWorker("echo 'libtorch_cpu.so: cannot open shared object file' >&2; exit 127");
  const auto reading = MeasureWorker(path_, "auto");
  EXPECT_TRUE(absl::IsUnavailable(reading.status()));
  EXPECT_THAT(std::string(reading.status().message()), HasSubstr("libtorch_cpu.so: cannot open"));
}

TEST_F(DoctorFolder, AMissingLibraryIsNamedWhereverTheProgramLies) {
  // The message is the loader's, and the path is longer than the quoted part.
  const std::string folder = path_ + "/" + std::string(100, 'p');
  WriteWorker(
      "echo \"$0: error while loading shared libraries: libc10.so.1.13: cannot open shared object "
      "file: No such file or directory\" >&2; exit 127");
  std::filesystem::create_directory(folder);
  std::filesystem::rename(path_ + "/longwave-worker", folder + "/longwave-worker");
  EXPECT_THAT(std::string(MeasureWorker(folder, "auto").status().message()),
              HasSubstr("does not start: libc10.so.1.13: cannot open shared object file"));
}

TEST_F(DoctorFolder, AWorkerThatIsNotThereIsNamed) {
  EXPECT_THAT(std::string(MeasureWorker(path_, "auto").status().message()),
              HasSubstr(path_ + "/longwave-worker: No such file"));
}

TEST_F(DoctorFolder, ADiskIsMeasuredAboveAFolderThatIsNotThereYetAndLeftAsItWas) {
  const auto reading = MeasureDisk(path_ + "/to/be/made");
  ASSERT_TRUE(reading.ok()) << reading.status();
  EXPECT_GT(reading->free_bytes, 0);
  EXPECT_GT(reading->bytes_per_second, 0);
  EXPECT_GT(reading->sync, absl::ZeroDuration());
  EXPECT_TRUE(std::filesystem::is_empty(path_));
}

TEST_F(DoctorFolder, AnEndInTheMidstOfTheDisksMeasurementLeavesNothing) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit one_page{4096, 4096};  // a signal ends a process that writes on
    setrlimit(RLIMIT_FSIZE, &one_page);
    _exit(MeasureDisk(path_).ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_TRUE(std::filesystem::is_empty(path_));
}

TEST(MeasureDisk, OneThatCannotBeWrittenIsAnErrorThatNamesIt) {
  const auto reading = MeasureDisk("/proc/longwave");
  ASSERT_FALSE(reading.ok());
  EXPECT_THAT(std::string(reading.status().message()), HasSubstr("/proc: cannot be written"));
}

TEST(MeasureConnection, TellsWhoListensFromWhoDoesNot) {
  EXPECT_THAT(
      std::string(MeasureConnection(HeldPort(/*listens=*/false).address(), 2).status().message()),
      HasSubstr("connection refused"));
  const HeldPort listener(/*listens=*/true);
  const auto took = MeasureConnection(listener.address(), 2);
  ASSERT_TRUE(took.ok()) << took.status();
  EXPECT_GT(*took, absl::ZeroDuration());
}

TEST(MeasureConnection, ANameThatNobodyHasIsSaidToBeUnknown) {
  EXPECT_THAT(std::string(MeasureConnection("longwave.invalid:7070", 1).status().message()),
              HasSubstr("its name is not known"));
}

TEST(MeasureCoordinator, WithNobodyThereTheRestIsNotAsked) {
  const CoordinatorReading reading = MeasureCoordinator("127.0.0.1:1", "");
  EXPECT_FALSE(reading.control.round_trip.ok());
  EXPECT_FALSE(reading.clock.ok());
  EXPECT_FALSE(reading.speed.ok());
  EXPECT_TRUE(reading.shards.empty());
}

// Of all workers: a run of one may have the room that a run of many has not.
TEST_F(DoctorFolder, ARunOfUpWantsRoomForTheCheckpointsOfAllItsWorkers) {
  RunConfig config = DefaultConfig();
  for (const Finding& finding : ExamineForUp(config, path_ + "/runs", ""))
    EXPECT_NE(finding.verdict, Finding::Verdict::kFailed) << finding.what;
  config.train.device = "cpu";
  config.model.d_model = 16384;
  config.model.layers = 256;
  config.run.workers = 100;
  const std::vector<Finding> findings = ExamineForUp(config, path_ + "/runs", path_);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].verdict, Finding::Verdict::kFailed);
  EXPECT_THAT(findings[0].what, HasSubstr("; two checkpoints take "));
  EXPECT_THAT(findings[0].remedy, HasSubstr("--runs-dir"));
  EXPECT_TRUE(ExamineForUp(config, "", path_).empty()) << "nothing is kept";
}

}  // namespace
}  // namespace longwave
