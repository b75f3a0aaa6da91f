#ifndef LONGWAVE_WORKER_CHECK_DEVICE_H_
#define LONGWAVE_WORKER_CHECK_DEVICE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace longwave {

// For `longwave doctor`: shows that all libraries load, and prints the device that a worker would
// use and, of several ranks, the link between them, as a worker uses it:
//
//   device cuda
//   node MEETING_SECONDS SUM_BYTES_PER_SECOND GATHER_BYTES_PER_SECOND
//
// Of the sum of a gradient and the gathering of weights the bytes are those of one rank's whole
// array. `why not cuda` and `why no node` begin lines with a reason.
//
// asked: auto, cpu or cuda. node_place, command: see Ranks::Open. Returns the exit status.
int CheckDevice(const std::string& asked, uint32_t ranks, const std::string& node_place,
                const std::vector<std::string>& command);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_CHECK_DEVICE_H_
