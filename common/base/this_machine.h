#ifndef LONGWAVE_COMMON_BASE_THIS_MACHINE_H_
#define LONGWAVE_COMMON_BASE_THIS_MACHINE_H_

#include <unistd.h>

#include <climits>
#include <string>

namespace longwave {

// The host name of this machine, by default a worker's name; "worker" if it has none.
inline std::string NameOfThisMachine() {
  char name[HOST_NAME_MAX + 1] = "";
  gethostname(name, sizeof name - 1);
  return *name == 0 ? "worker" : name;
}

}  // namespace longwave

#endif  // LONGWAVE_COMMON_BASE_THIS_MACHINE_H_
