#ifndef LONGWAVE_WORKER_CHECK_DEVICE_H_
#define LONGWAVE_WORKER_CHECK_DEVICE_H_

#include <string>

namespace longwave {

// For `longwave doctor`: shows that all libraries load, and prints the device that a worker would
// use, `device cuda` for example. `why not cuda` begins a line with a reason.
//
// asked: auto, cpu or cuda. Returns the exit status.
int CheckDevice(const std::string& asked);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_CHECK_DEVICE_H_
