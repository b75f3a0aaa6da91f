#ifndef LONGWAVE_CLI_DISPLAY_H_
#define LONGWAVE_CLI_DISPLAY_H_

#include <memory>

#include "cli/view.h"

namespace longwave {

// Shows a run in progress: redrawn in a terminal, or line by line in a log.
class Display {
 public:
  // For standard output: a terminal gets the live view unless `plain` or too small.
  static std::unique_ptr<Display> Create(bool plain);
  virtual ~Display() = default;

  virtual void Update(const ViewInput& input) = 0;
};

}  // namespace longwave

#endif  // LONGWAVE_CLI_DISPLAY_H_
