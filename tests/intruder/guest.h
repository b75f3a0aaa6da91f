#ifndef LONGWAVE_TESTS_INTRUDER_GUEST_H_
#define LONGWAVE_TESTS_INTRUDER_GUEST_H_

#include <optional>
#include <string>

#include "common/config/run_config.h"
#include "common/layout/layout.h"
#include "common/layout/manifest.h"
#include "common/link/curve.h"
#include "common/wire/control.h"
#include "tests/intruder/secured_run.h"

namespace longwave {

// Somebody whom a token has let in: a certificate in a folder, and all that a worker knows before
// it registers.
struct Guest {
  std::string name;
  std::string folder;
  RunConfig config;
  Manifest manifest;
  Layout layout;
  CurveKeys keys;

  // What is to be registered of it.
  RegisterWorker Registration(uint64_t incarnation) const;
};

// Nothing, and a failure noted: it was not let in.
std::optional<Guest> Admit(SecuredRun* run, const std::string& name);

}  // namespace longwave

#endif  // LONGWAVE_TESTS_INTRUDER_GUEST_H_
