#include <CLI/CLI.hpp>

#include "common/base/memory.h"
#include "common/command_line/command_line.h"
#include "common/log/log.h"
#include "tests/bench/link/bench.h"

int main(int argc, char** argv) {
  longwave::KeepFreedMemory();
  longwave::SetLogLevel(longwave::LogLevel::kError);
  longwave::BenchLinkOptions options;
  CLI::App app("A real training run over slow links: compute share, bytes, time to a loss.",
               "bench_link");
  app.add_option("--set", options.overrides, "A setting, key=value; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--data", options.data, "Text to train on: a file or a folder");
  app.add_option("--rates", options.rates, "Rates of the links, Mbit/s")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--mtu", options.mtu, "Of the data links: bytes of a packet")
      ->check(CLI::Range(576, 65535))
      ->capture_default_str();
  app.add_flag("--no-loss-probes", options.no_loss_probes,
               "Switch off TCP's loss probes (net.ipv4.tcp_early_retrans=0), as a machine behind a "
               "slow link may");
  app.add_option("--rounds", options.rounds, "Rounds of each run")->capture_default_str();
  CLI::Option* const intervals =
      app.add_option(
             "--intervals", options.intervals,
             "In place of all else: a run of --rounds x H inner steps with each of these, numbers "
             "or auto, over links that go from the highest rate to the lowest and back")
          ->delimiter(',');
  app.add_option("--alternate-s", options.alternate_s, "Seconds of a rate, with --intervals")
      ->check(CLI::Range(1.0, 3600.0))
      ->needs(intervals)
      ->capture_default_str();
  app.add_option("--baselines", options.baselines,
                 "torch-ddp and presets, separated by commas; or none")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--torch-python", options.torch_python, "A Python that has torch");
  app.add_flag("--quick", options.quick, "A GPT of 1 M parameters, H 10");
  app.add_flag("--state", options.keep_state,
               "Keep state in the runs' folders, as `longwave up` does: checkpoints and logs");
  app.add_option("--runs-dir", options.runs_dir, "Folder of the runs' folders")
      ->capture_default_str();
  app.add_option("--json", options.json_file, "File that gets the figures as JSON")
      ->excludes(intervals);
  if (const auto status = longwave::ParseCommandLine(&app, argc, argv, "bench_link: ")) {
    return *status;
  }
  return longwave::RunBenchLink(options);
}
