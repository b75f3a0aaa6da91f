#ifndef LONGWAVE_CLI_TOP_H_
#define LONGWAVE_CLI_TOP_H_

#include <string>

namespace longwave {

struct TopOptions {
  std::string address;   // host:port of the coordinator
  std::string security;  // folder of credentials; empty: the run is not secured
  bool plain = false;    // a line a round, also in a terminal
};

// `longwave top`: the live view of any run, until the run or the user ends it. Returns the exit
// status: 0 unless the run failed or the coordinator does not answer.
int RunTop(const TopOptions& options);

}  // namespace longwave

#endif  // LONGWAVE_CLI_TOP_H_
