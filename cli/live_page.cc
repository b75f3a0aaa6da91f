#include "cli/live_page.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/errors.h"
#include "common/base/listener.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/command_line/command_line.h"

namespace longwave {

absl::StatusOr<std::unique_ptr<LivePage>> LivePage::Start(const WebOptions& options,
                                                          const std::string& name,
                                                          const RunConfig& config) {
  if (options.address.empty()) return nullptr;
  const absl::StatusOr<std::string> host = CheckListenAddress(options.address);
  if (!host.ok()) return Prefixed("--web", host.status());
  std::unique_ptr<LivePage> page(new LivePage(name.empty() ? config.run.preset : name, config));
  LONGWAVE_ASSIGN_OR_RETURN(page->server_, LiveServer::Start(options, [page = page.get()] {
                              const std::lock_guard lock(page->mutex_);
                              return page->data_.Whole();
                            }));
  PrintLine(stdout, "page      ", page->server_->link());
  std::fflush(stdout);
  return page;
}

void LivePage::Update(const RunStatus& status, const std::string& note) {
  const absl::Time now = MonotonicNow();
  if (now < next_ && note == note_ && !IsOver(status.phase)) return;
  note_ = note;
  next_ = now + kInterval;
  std::string news;
  {
    const std::lock_guard lock(mutex_);
    news = data_.Update(status, note, absl::Now());
  }
  server_->Publish(news);
}

void AddWebOptions(CLI::App* command, WebOptions* options) {
  CLI::Option* const web =
      command
          ->add_option("--web", options->address,
                       "Serve the run's page to browsers at HOST:PORT [127.0.0.1:7080]")
          ->expected(0, 1)
          ->default_str("127.0.0.1:7080");
  // CLI11 checks no empty text of an option that may stand alone.
  command->callback([web, options] {
    if (web->count() > 0 && options->address.empty())
      throw CLI::ValidationError("--web", "got an empty text, wanted HOST:PORT");
  });
  command
      ->add_option("--web-tls", options->tls,
                   "Folder of tls.crt and tls.key, with which --web serves beyond loopback")
      ->needs("--web")
      ->check(NotEmpty());
}

}  // namespace longwave
