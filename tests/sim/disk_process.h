#ifndef LONGWAVE_TESTS_SIM_DISK_PROCESS_H_
#define LONGWAVE_TESTS_SIM_DISK_PROCESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "tests/sim/environment.h"
#include "tests/sim/lying_file_system.h"
#include "tests/sim/process.h"
#include "tests/support/sim_file_system.h"

namespace longwave::sim {

// A server: a process whose folder is on a simulated disk.
class DiskProcess : public Process {
 public:
  // A crash of the machine.
  void LosePower() {
    env_.probes->Hit(lost_power_);
    next_stop_ = SimFileSystem::Stop::kPower;
    Crash();
  }
  SimFaults& disk_faults() { return disk_->faults; }
  const SimFileSystem& disk() const { return *disk_; }
  // Whether the machine stops along with a process that the disk stops during a write.
  void set_write_crash_is_power(bool is_power) { write_crash_is_power_ = is_power; }
  // Called when a crash during a write has ended the process; restarts it later.
  std::function<void()> on_write_crash;

 protected:
  // canary: of the disk. The probes are those of the process's faults.
  DiskProcess(const Environment& env, uint32_t node, Canary canary, Probe lost_power,
              Probe crashed_in_write)
      : Process(env.scheduler, node),
        env_(env),
        canary_(canary),
        lost_power_(lost_power),
        crashed_in_write_(crashed_in_write) {}

  void UseDisk(std::unique_ptr<SimFileSystem> disk) {
    disk_ = std::move(disk);
    lying_ = std::make_unique<LyingFileSystem>(disk_.get(), canary_);
  }
  void UseNewDisk(uint64_t seed) { UseDisk(std::make_unique<SimFileSystem>(seed)); }
  // Stops the disk along with the process.
  void StopDisk() { disk_->Restart(std::exchange(next_stop_, SimFileSystem::Stop::kProcess)); }
  // Ends the process if its disk has stopped during a write.
  bool EndIfStopped() {
    if (!disk_->crashed()) return false;
    env_.probes->Hit(crashed_in_write_);
    if (write_crash_is_power_) next_stop_ = SimFileSystem::Stop::kPower;
    Crash();
    on_write_crash();
    return true;
  }
  // The process ends, and a supervisor starts it again.
  void StartAgain() {
    Crash();
    scheduler_->After(absl::Seconds(2), [this] { Start(); });
  }

  const Environment env_;
  std::unique_ptr<SimFileSystem> disk_;
  std::unique_ptr<LyingFileSystem> lying_;  // in front of disk_
  SimFileSystem::Stop next_stop_ = SimFileSystem::Stop::kProcess;

 private:
  const Canary canary_;
  const Probe lost_power_, crashed_in_write_;
  bool write_crash_is_power_ = false;
};

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_DISK_PROCESS_H_
