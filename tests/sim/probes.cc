#include "tests/sim/probes.h"

#include "common/base/enum_name.h"

namespace longwave::sim {

std::string_view Name(Probe probe) {
#define LONGWAVE_SIM_PROBE(probe, name) name,
  static constexpr std::string_view kNames[] = {LONGWAVE_SIM_PROBES(LONGWAVE_SIM_PROBE)};
#undef LONGWAVE_SIM_PROBE
  return EnumName(probe, kNames);
}

std::vector<Probe> Probes::Missed() const {
  std::vector<Probe> missed;
  for (size_t i = 0; i < kProbeCount; ++i) {
    if (counts_[i] == 0) missed.push_back(static_cast<Probe>(i));
  }
  return missed;
}

}  // namespace longwave::sim
