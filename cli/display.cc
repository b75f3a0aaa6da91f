#include "cli/display.h"

#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/screen.h"
#include "common/base/print.h"

namespace longwave {
namespace {

class LiveDisplay : public Display {
 public:
  void Update(const ViewInput& input) override { screen_.Draw(LiveLines(input, screen_.style())); }

 private:
  Screen screen_{STDOUT_FILENO};
};

class LogDisplay : public Display {
 public:
  void Update(const ViewInput& input) override {
    if (!header_shown_) {
      header_shown_ = true;
      for (const std::string& line : HeaderLines(input, TextStyle{.width = 1000}))
        PrintLine(stdout, line);
    }
    if (input.note != note_) {
      note_ = input.note;
      if (!note_.empty()) PrintLine(stdout, note_);
    }
    if (!training_shown_ && input.status->phase != RunPhase::kWaiting &&
        input.status->parameters > 0) {
      training_shown_ = true;
      PrintLine(stdout, absl::StrCat("training ", input.status->parameters,
                                     " parameters, coordinator at ", input.coordinator_address));
    }
    std::vector<std::string> troubles = TroubleLines(*input.status);
    if (troubles != troubles_) {
      troubles_ = std::move(troubles);
      for (const std::string& trouble : troubles_) PrintLine(stdout, trouble);
    }
    const auto& records = input.status->records;
    for (; rounds_seen_ < records.size(); ++rounds_seen_) {
      const RoundRecord& record = records[rounds_seen_];
      if (record.validation_loss) validation_loss_ = record.validation_loss;
      if (ShowsRound(*input.config, static_cast<uint32_t>(rounds_seen_ + 1))) {
        PrintLine(stdout, RoundLine(*input.config, record, validation_loss_));
      }
    }
  }

 private:
  bool header_shown_ = false;
  bool training_shown_ = false;
  std::string note_;
  std::vector<std::string> troubles_;
  size_t rounds_seen_ = 0;
  std::optional<double> validation_loss_;
};

}  // namespace

std::unique_ptr<Display> Display::Create(bool plain) {
  if (plain || !Screen::MayDraw(STDOUT_FILENO)) return std::make_unique<LogDisplay>();
  return std::make_unique<LiveDisplay>();
}

}  // namespace longwave
