#include "cli/display.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/screen.h"
#include "common/base/figures.h"
#include "common/base/print.h"

namespace longwave {
namespace {

constexpr uint64_t kLogLinesMax = 100;

class LiveDisplay : public Display {
 public:
  void Update(const ViewInput& input) override { screen_.Draw(ViewLines(input, screen_.style())); }
  void End(const ViewInput& input) override {
    screen_.Clear();
    PrintView(input);
  }

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
      PrintLine(stdout, "training ", input.status->parameters, " parameters, coordinator at ",
                input.coordinator_address);
    }
    std::vector<std::string> troubles = TroubleLines(*input.status);
    if (troubles != troubles_) {
      troubles_ = std::move(troubles);
      for (const std::string& trouble : troubles_) PrintLine(stdout, trouble);
    }
    const auto& warnings = input.status->warnings;
    for (; warnings_seen_ < warnings.size(); ++warnings_seen_)
      PrintLine(stdout, "warning: ", SentenceOf(warnings[warnings_seen_]));
    const auto& records = input.status->records;
    for (; rounds_seen_ < records.size(); ++rounds_seen_) {
      const RoundRecord& record = records[rounds_seen_];
      if (record.validation_loss) validation_loss_ = record.validation_loss;
      const uint64_t done = rounds_seen_ + 1;
      if (ShowsRound(done, ExpectedRounds(*input.config, done, record.step))) {
        PrintLine(stdout, RoundLine(*input.config, record, validation_loss_));
      }
    }
  }

  void End(const ViewInput& input) override {
    PrintLine(stdout, "");
    PrintView(input);
  }

 private:
  bool header_shown_ = false;
  bool training_shown_ = false;
  std::string note_;
  std::vector<std::string> troubles_;
  size_t warnings_seen_ = 0;
  size_t rounds_seen_ = 0;
  std::optional<double> validation_loss_;
};

}  // namespace

void PrintView(const ViewInput& input) {
  std::string text;
  for (const std::string& line : ViewLines(input, StyleOf(stdout)))
    absl::StrAppend(&text, line, "\n");
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

bool ShowsRound(uint64_t rounds_done, uint64_t rounds) {
  const uint64_t every = std::max<uint64_t>(1, (rounds + kLogLinesMax - 1) / kLogLinesMax);
  return rounds_done % every == 0 || rounds_done == rounds || rounds_done == 1;
}

std::string RoundLine(const RunConfig& config, const RoundRecord& record,
                      const std::optional<double>& validation_loss) {
  const double members = std::max<uint32_t>(1, record.members);
  std::string line = absl::StrFormat(
      "%s  validation %s  %8s tokens/s  pushed %8s  pulled %8s a worker  %s",
      FormatRound({.rounds_done = uint64_t{record.round} + 1,
                   .rounds = ExpectedRounds(config, uint64_t{record.round} + 1, record.step),
                   .step = record.step,
                   .steps = config.run.steps,
                   .train_loss = record.train_loss}),
      validation_loss ? FormatLoss(*validation_loss) : "-    ",
      FormatCount(record.tokens_per_second),
      FormatBytes(static_cast<double>(record.bytes.pushed) / members),
      FormatBytes(static_cast<double>(record.bytes.pulled) / members),
      FormatDuration(record.seconds));
  if (!record.replicas_equal && PromisesEqualReplicas(config)) {
    absl::StrAppend(&line, "  REPLICAS DIFFER");
  }
  return line;
}

std::unique_ptr<Display> Display::Create(bool plain) {
  if (plain || !Screen::MayDraw(STDOUT_FILENO)) return std::make_unique<LogDisplay>();
  return std::make_unique<LiveDisplay>();
}

}  // namespace longwave
