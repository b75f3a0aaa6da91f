#ifndef LONGWAVE_CLI_DISPLAY_H_
#define LONGWAVE_CLI_DISPLAY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cli/view.h"

namespace longwave {

// Shows a run in progress: redrawn in a terminal, or line by line in a log.
class Display {
 public:
  // For standard output: a terminal gets the live view unless `plain` or too small.
  static std::unique_ptr<Display> Create(bool plain);
  virtual ~Display() = default;

  virtual void Update(const ViewInput& input) = 0;
  // Prints the whole view, in the place of the live one.
  virtual void End(const ViewInput& input) = 0;
};

// The view on standard output, once.
void PrintView(const ViewInput& input);

// A finished round, for a log.
std::string RoundLine(const RunConfig& config, const RoundRecord& record,
                      const std::optional<double>& validation_loss);
// Whether a log of about a hundred lines shows the last of the rounds that are done. rounds: of the
// run, as far as is known.
bool ShowsRound(uint64_t rounds_done, uint64_t rounds);

}  // namespace longwave

#endif  // LONGWAVE_CLI_DISPLAY_H_
