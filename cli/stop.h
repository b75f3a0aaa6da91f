#ifndef LONGWAVE_CLI_STOP_H_
#define LONGWAVE_CLI_STOP_H_

#include <string>

namespace longwave {

// `longwave stop`: the coordinator ends the run where it is, and the designated worker writes the
// weights. security: an operator's folder of credentials, for a secured run. Returns the exit
// status.
int RunStop(const std::string& address, const std::string& security);

}  // namespace longwave

#endif  // LONGWAVE_CLI_STOP_H_
