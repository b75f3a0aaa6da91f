#ifndef LONGWAVE_TESTS_SIM_WORLD_H_
#define LONGWAVE_TESTS_SIM_WORLD_H_

#include <cstdint>
#include <functional>
#include <string>

#include "tests/sim/probes.h"
#include "tests/sim/settings.h"

namespace longwave::sim {

// The result of a world.
struct WorldResult {
  std::string violation;  // empty: none
  uint64_t trace_hash = 0;
  uint64_t events = 0;
  uint64_t messages = 0;
  double seconds = 0;  // of simulated time
  uint64_t pushes_merged = 0;
  uint64_t unknown_fates = 0;  // contributions whose fate was unknown
  uint64_t pushes_lost = 0;    // accepted, and lost with their folder
  uint32_t rounds = 0;
  Probes probes;
};

// Simulates a whole run in one thread: the real coordinator, shards, ledgers, pipelines and
// checkpoints on simulated time, network and disks, with the faults drawn from the seed. Ends with
// the run, at the first violation, or if the run has not ended long after the last fault. listener:
// gets every step in words; null: none.
WorldResult RunWorld(const WorldSettings& settings,
                     const std::function<void(const std::string&)>& listener = nullptr);

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_WORLD_H_
