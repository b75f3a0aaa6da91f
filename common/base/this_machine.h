#ifndef LONGWAVE_COMMON_BASE_THIS_MACHINE_H_
#define LONGWAVE_COMMON_BASE_THIS_MACHINE_H_

#include <unistd.h>

#include <climits>
#include <string>

namespace longwave {

// The default name of a worker: this machine's host name.
inline std::string NameOfThisMachine() {
  char name[HOST_NAME_MAX + 1] = "";
  gethostname(name, sizeof name - 1);
  return *name == 0 ? "worker" : name;
}

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_THIS_MACHINE_H_
