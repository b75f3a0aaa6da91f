#ifndef LONGWAVE_TESTS_CHAOS_STEPS_PUSHED_H_
#define LONGWAVE_TESTS_CHAOS_STEPS_PUSHED_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "server/store/file_system.h"
#include "worker/checkpoint/push_journal.h"

namespace longwave {

// The steps of a worker's last push in its folder's journals from `write` on; 0: they have none.
inline absl::StatusOr<uint64_t> StepsPushed(FileSystem& files, const std::string& folder,
                                            uint64_t write) {
  LONGWAVE_ASSIGN_OR_RETURN(const auto records, ReadJournals(files, folder, write, nullptr));
  uint64_t steps = 0;
  for (const JournalRecord& record : records) steps = std::max(steps, record.step);
  return steps;
}

}  // namespace longwave

#endif  // LONGWAVE_TESTS_CHAOS_STEPS_PUSHED_H_
