#ifndef LONGWAVE_TESTS_INTRUDER_GUEST_H_
#define LONGWAVE_TESTS_INTRUDER_GUEST_H_

#include <optional>
#include <string>

#include "common/config/run_config.h"
#include "common/control/control.h"
#include "common/layout/layout.h"
#include "common/layout/manifest.h"
#include "common/link/curve.h"
#include "tests/intruder/secured_run.h"

namespace longwave {

// A worker admitted by a token: a certificate in a folder, and a worker's knowledge before it
// registers.
struct Guest {
  std::string name;
  std::string folder;
  RunConfig config;
  Manifest manifest;
  Layout layout;
  CurveKeys keys;

  // The guest's registration.
  RegisterWorker Registration(uint64_t incarnation) const;
};

// Nothing, with a failure noted: the run did not admit the worker.
std::optional<Guest> Admit(SecuredRun* run, const std::string& name);

}  // namespace longwave

#endif  // LONGWAVE_TESTS_INTRUDER_GUEST_H_
