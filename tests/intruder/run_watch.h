#ifndef LONGWAVE_TESTS_INTRUDER_RUN_WATCH_H_
#define LONGWAVE_TESTS_INTRUDER_RUN_WATCH_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/intruder/secured_run.h"

namespace longwave {

// Observes a run's honest processes from outside during an attack, and checks their invariants. A
// violation is a failure of the test, noted once.
class RunWatch {
 public:
  // The processes that are there now are the honest ones. The run outlives this object.
  RunWatch(SecuredRun* run, uint32_t rounds);

  // Each process is the one that there was; segments go on being closed, and an honest worker
  // that is a member stays one; no server takes much more memory than at first. Now and then what
  // people see, too.
  void Look();
  // Called after the last round: the run is finished, with equal replicas and an honest worker's
  // weights. No process was restarted, no worker left, all remaining texts are fit for terminals,
  // and `replay` finds no broken promise.
  void ExpectAGoodEnd();

  bool over() const { return over_; }
  std::string Figures() const;

 private:
  struct Child {
    std::string name;  // "worker-0"
    uint64_t first_bytes = 0, most_bytes = 0;
    bool was_member = false;
  };

  void Fail(const std::string& what);
  void ReadLines();
  void LookAtProcesses();
  void LookAtMemory();
  void LookAtProgress(const RunStatus& status);
  void LookAtPages();
  void ExpectFit(const std::string& where, const std::string& text);
  // The output of one of our commands, whose exit status is 0.
  std::string OutputOf(const std::vector<std::string>& arguments);

  SecuredRun* const run_;
  const uint32_t rounds_;
  std::map<pid_t, Child> children_;
  std::vector<std::string> failed_;
  std::string lines_;  // of `longwave up`
  uint64_t closed_ = 0;
  absl::Time moved_ = absl::Now();
  absl::Time looked_at_pages_ = absl::InfinitePast();
  absl::Duration longest_pause_, end_;
  uint64_t records_ = 0;
  bool over_ = false;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_INTRUDER_RUN_WATCH_H_
