#include "cli/bench/verdict.h"

namespace longwave {

std::string_view Name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kMet:
      return "met";
    case Verdict::kNotMet:
      return "not met";
    case Verdict::kNotMeasured:
      return "not measured";
  }
  return "unknown";
}

}  // namespace longwave
