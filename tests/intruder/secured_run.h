#ifndef LONGWAVE_TESTS_INTRUDER_SECURED_RUN_H_
#define LONGWAVE_TESTS_INTRUDER_SECURED_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/process.h"
#include "common/link/curve.h"
#include "common/rpc/coordinator_client.h"
#include "common/security/certificates.h"
#include "common/security/identity.h"
#include "gtest/gtest.h"
#include "tests/support/held_port.h"
#include "tests/support/shard_client.h"

namespace longwave {

inline constexpr absl::Duration kPatience = absl::Seconds(120);

// Looks until `is_so` says true; the moments between belong to the machine that is looked at.
template <typename IsSo>
::testing::AssertionResult Eventually(const std::string& what, const IsSo& is_so) {
  const absl::Time deadline = absl::Now() + kPatience;
  while (absl::Now() < deadline) {
    if (is_so()) return ::testing::AssertionSuccess();
    absl::SleepFor(absl::Milliseconds(20));
  }
  return ::testing::AssertionFailure()
         << "did not come within " << absl::FormatDuration(kPatience) << ": " << what;
}

// The answer to a call on a new connection. On a busy machine the connection may not be ready in
// time.
template <typename Call>
absl::Status Answer(const Call& call) {
  absl::Status status;
  EXPECT_TRUE(Eventually("an answer to a call", [&] {
    status = call();
    return !absl::IsUnavailable(status);
  }));
  return status;
}

// A tiny training run by `longwave up` with security.mode=on: one coordinator, two shards, two
// workers unless told otherwise, with a folder of its own.
class SecuredRun {
 public:
  // The run that tests share, started by the first call. Null, with a failure noted, if it does not
  // start.
  static SecuredRun* Get();
  static void Stop();
  // A run of the caller's own with these settings ("key=value") on top, once it has finished so
  // many rounds; null as above.
  static std::unique_ptr<SecuredRun> Start(const std::vector<std::string>& settings,
                                           uint64_t rounds);
  ~SecuredRun();

  const std::string& address() const { return address_; }
  std::string folder() const { return root_ + "/runs/run"; }
  std::string credentials(const std::string& process) const {
    return folder() + "/security/" + process;
  }
  // A new folder under the test's own.
  std::string NewFolder();
  // A name that no worker has had, so that a test may be repeated.
  std::string NewName(const std::string& what) { return absl::StrCat(what, "-", names_++); }
  // In the run's own name: its authority, for certificates that are wrong on purpose.
  const Authority& authority() const { return *authority_; }
  // Credentials by an authority, in a new folder that trusts the run.
  std::string Forge(const Authority& authority, const Identity& identity, const Validity& validity);

  CoordinatorClient& as_operator() { return *operator_; }
  // A call to the coordinator that only trusts the run.
  absl::Status StopWithoutCertificate();
  std::unique_ptr<CoordinatorClient> As(const std::string& folder) const {
    return CoordinatorClient::Connect(address_, absl::Seconds(20), folder);
  }
  std::unique_ptr<ShardClient> ShardAs(uint32_t shard, const std::string& folder);
  // A token of the operator's; empty, with a failure noted: none.
  std::string NewToken(const TokenWish& wish = {
                           .life = absl::Hours(1), .uses = 1, .subject = "worker/"});
  // As whoever holds the token, with credentials in a new folder or that one.
  absl::Status Join(const std::string& token, const std::string& name,
                    const std::string& folder = "");
  RunStatus Status();
  ShardReport ShardStatus(uint32_t shard);
  std::string DataEndpoint(uint32_t shard);  // with its key
  uint64_t CoordinatorRefusals(const std::string& reason);
  uint64_t ShardRefusals(uint32_t shard, const std::string& reason);
  // The content of a process's log.
  std::string LogOf(const std::string& process) const;
  // Whether the log has a line with all of `parts`, after its first so many bytes.
  bool Logged(const std::string& process, size_t after,
              const std::vector<std::string>& parts) const;
  // A process's page of metrics; empty: none.
  std::string PageOf(const std::string& process) const;
  // A series on that page, by the value of one of its labels ("": any); nothing: absent.
  std::optional<double> MetricOf(const std::string& process, const std::string& series,
                                 const std::string& label) const;
  bool Running() { return up_->Running(); }
  // `longwave up` itself.
  Process& up() { return *up_; }

 private:
  SecuredRun() = default;
  bool Begin(const std::vector<std::string>& settings, uint64_t rounds);

  std::string root_;
  const HeldPort port_{/*listens=*/false};  // until the coordinator does
  const std::string address_ = port_.address();
  std::unique_ptr<Process> up_;
  std::unique_ptr<Authority> authority_;
  std::unique_ptr<CoordinatorClient> operator_;
  int folders_ = 0;
  int names_ = 0;
};

// Tests on the run that they share.
class InRun : public ::testing::Test {
 protected:
  void SetUp() override {
    run_ = SecuredRun::Get();
    ASSERT_NE(run_, nullptr) << "there is no run to intrude into";
    ASSERT_TRUE(run_->Running()) << "the run has ended";
  }

  // The run has gone on since, and its replicas are equal.
  void ExpectTheRunGoesOn() {
    const uint64_t rounds = run_->Status().record_count;
    EXPECT_TRUE(
        Eventually("two more rounds", [&] { return run_->Status().record_count >= rounds + 2; }));
    const RunStatus status = run_->Status();
    EXPECT_EQ(status.phase, RunPhase::kTraining);
    EXPECT_TRUE(status.replicas_equal) << status.inequality;
    EXPECT_TRUE(run_->Running());
  }

  SecuredRun* run_ = nullptr;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_INTRUDER_SECURED_RUN_H_
