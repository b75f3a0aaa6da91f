#ifndef LONGWAVE_CLI_JOIN_DOCTOR_COMMAND_H_
#define LONGWAVE_CLI_JOIN_DOCTOR_COMMAND_H_

#include <string>

namespace longwave {

struct DoctorOptions {
  std::string address;    // host:port of a coordinator; empty: state_dir's, or none
  std::string state_dir;  // of a machine that has joined, or will join
  std::string security;   // folder of credentials; empty: state_dir's
  std::string device;     // requested; empty: the run's, or auto
  std::string data;
  bool json = false;
};

// `longwave doctor`: prints a finding for each part of the machine and its links. Returns 1 if a
// check failed.
int RunDoctorCommand(const DoctorOptions& options);

}  // namespace longwave

#endif  // LONGWAVE_CLI_JOIN_DOCTOR_COMMAND_H_
