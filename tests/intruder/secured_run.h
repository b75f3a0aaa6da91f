#ifndef LONGWAVE_TESTS_INTRUDER_SECURED_RUN_H_
#define LONGWAVE_TESTS_INTRUDER_SECURED_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/process.h"
#include "common/link/curve.h"
#include "common/rpc/coordinator_client.h"
#include "common/rpc/shard_client.h"
#include "common/security/certificates.h"
#include "common/security/identity.h"
#include "gtest/gtest.h"

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

// "127.0.0.1:port" or "tcp://127.0.0.1:port?key=…"; −1: nobody listens.
int ConnectTo(const std::string& address);

// One tiny training run by `longwave up` with security.mode=on: one coordinator, two shards, two
// workers, with a folder of its own. Every test takes its turn on it.
class SecuredRun {
 public:
  // Started by whoever asks first; null, and a failure noted, if it does not come up.
  static SecuredRun* Get();
  static void Stop();
  ~SecuredRun();

  const std::string& address() const { return address_; }
  std::string credentials(const std::string& process) const {
    return root_ + "/runs/run/security/" + process;
  }
  // A new folder under the test's own.
  std::string NewFolder();
  // In the run's own name: its authority, for certificates that are wrong on purpose.
  const Authority& authority() const { return *authority_; }
  // Credentials by an authority, in a new folder that trusts the run.
  std::string Forge(const Authority& authority, const Identity& identity, const Validity& validity);

  CoordinatorClient& as_operator() { return *operator_; }
  std::unique_ptr<CoordinatorClient> As(const std::string& folder) const {
    return CoordinatorClient::Connect(address_, absl::Seconds(20), folder);
  }
  std::unique_ptr<ShardClient> ShardAs(uint32_t shard, const std::string& folder);
  RunStatus Status();
  ShardReport ShardStatus(uint32_t shard);
  std::string DataEndpoint(uint32_t shard);  // with its key
  uint64_t CoordinatorRefusals(const std::string& reason);
  uint64_t ShardRefusals(uint32_t shard, const std::string& reason);
  // What a process has written to its log.
  std::string LogOf(const std::string& process) const;
  // Whether it has written a line with all of that, after so many bytes of its log.
  bool Logged(const std::string& process, size_t after,
              const std::vector<std::string>& parts) const;
  // On a process's page: a series, by the value of one of its labels ("": whichever); nothing: it
  // is not there.
  std::optional<double> MetricOf(const std::string& process, const std::string& series,
                                 const std::string& label) const;
  bool Running() { return up_->Running(); }

 private:
  SecuredRun() = default;
  bool Start();

  std::string root_;
  std::string address_;
  std::unique_ptr<Process> up_;
  std::unique_ptr<Authority> authority_;
  std::unique_ptr<CoordinatorClient> operator_;
  int folders_ = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_INTRUDER_SECURED_RUN_H_
