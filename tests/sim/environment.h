#ifndef LONGWAVE_TESTS_SIM_ENVIRONMENT_H_
#define LONGWAVE_TESTS_SIM_ENVIRONMENT_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "common/layout/layout.h"
#include "common/wire/buffer.h"
#include "common/wire/frame.h"
#include "tests/sim/checker.h"
#include "tests/sim/network.h"
#include "tests/sim/probes.h"
#include "tests/sim/scheduler.h"
#include "tests/sim/settings.h"
#include "tests/sim/trace.h"

namespace longwave::sim {

// A worker whose pushes are preceded by poisoned ones, until a time.
struct Poison {
  uint32_t node = 0;
  uint32_t kind = 0;
  absl::Time until = absl::InfinitePast();
};

// The surroundings of every process of a world, all of which outlive the processes.
struct Environment {
  const WorldSettings* settings = nullptr;
  const Layout* layout = nullptr;
  Scheduler* scheduler = nullptr;
  Network* network = nullptr;
  Trace* trace = nullptr;
  Probes* probes = nullptr;
  Checker* checker = nullptr;
  const Poison* poison = nullptr;
};

// Kinds of trace entries.
enum class Mark : uint64_t {
  kFault = 1,
  kStart,
  kCrash,
  kFrameToShard,
  kFrameToWorker,
  kCall,
  kAnswer,
  kRound,
  kPhase,
};

// A frame on the data plane. The header has its 64 wire bytes, so the simulation cannot pass more
// than the wire does.
struct WireFrame {
  std::array<std::byte, kFrameHeaderBytes> header;
  Buffer payload;
  uint64_t bytes() const { return header.size() + payload.size(); }
};
WireFrame Seal(FrameHeader header, const Buffer& payload);
// The header, checked against the payload. A malformed one violates the world's rules.
FrameHeader Open(const WireFrame& frame, Checker* checker);

}  // namespace longwave::sim

#endif  // LONGWAVE_TESTS_SIM_ENVIRONMENT_H_
