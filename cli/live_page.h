#ifndef LONGWAVE_CLI_LIVE_PAGE_H_
#define LONGWAVE_CLI_LIVE_PAGE_H_

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/live/live_server.h"
#include "cli/live_data.h"
#include "common/config/run_config.h"
#include "common/control/control.h"

namespace CLI {
class App;
}

namespace longwave {

// `--web` of `up` and `top`: the run's page for browsers, while the command watches the run.
class LivePage {
 public:
  static constexpr absl::Duration kInterval = absl::Seconds(1);  // of its news

  // Serves the page and prints its link; null without an address. name: the run's, if it has one.
  // Errors: as LiveServer::Start's.
  static absl::StatusOr<std::unique_ptr<LivePage>> Start(const WebOptions& options,
                                                         const std::string& name,
                                                         const RunConfig& config);

  // Shows the present status, with every record, unless it has shown one within kInterval, the
  // run goes on and the note is the same. note: as LiveData's. One thread calls it.
  void Update(const RunStatus& status, const std::string& note);

 private:
  LivePage(const std::string& name, const RunConfig& config) : data_(name, config) {}

  std::mutex mutex_;
  LiveData data_;
  absl::Time next_ = absl::InfinitePast();
  std::string note_;
  std::unique_ptr<LiveServer> server_;  // last: its thread uses the data
};

// Adds --web and --web-tls to a command.
void AddWebOptions(CLI::App* command, WebOptions* options);

}  // namespace longwave

#endif  // LONGWAVE_CLI_LIVE_PAGE_H_
