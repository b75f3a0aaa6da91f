#include "tests/bench/link/torch.h"

#include <poll.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/process.h"
#include "cli/run_folder.h"
#include "common/base/status_macros.h"
#include "common/config/key_types.h"

namespace longwave {
namespace {

// Port of the store by which ranks find each other, in this run's own namespace.
constexpr int kStorePort = 7099;
constexpr int kLookMs = 200;
constexpr char kScript[] = LONGWAVE_SOURCE_DIR "/tests/bench/link/ddp_baseline.py";

std::string LastLineOf(const std::string& file) {
  std::ifstream stream(file);
  std::string line, last;
  while (std::getline(stream, line)) {
    if (!absl::StripAsciiWhitespace(line).empty()) last = line;
  }
  return last;
}

std::vector<std::string> Arguments(const TorchRunOptions& options, uint32_t rank) {
  const RunConfig& config = options.config;
  std::vector<std::string> arguments;
  const auto add = [&arguments](absl::string_view name, const auto& value) {
    arguments.push_back(absl::StrCat("--", name));
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, double>) {
      arguments.push_back(FormatNumber(value));  // exact, as a configuration has it
    } else {
      arguments.push_back(absl::StrCat(value));
    }
  };
  add("rank", rank);
  add("world", config.run.workers);
  add("master", options.network->Address("worker-0", LinkNetwork::kControl));
  add("port", kStorePort);
  add("data", config.data.path);
  add("seed", config.run.seed);
  add("d-model", config.model.d_model);
  add("layers", config.model.layers);
  add("heads", config.model.heads);
  add("context", config.model.context);
  add("parameters", options.parameters);
  add("batch", config.train.batch);
  add("learning-rate", config.train.learning_rate);
  add("warmup-steps", config.train.warmup_steps);
  add("beta1", config.train.beta1);
  add("beta2", config.train.beta2);
  add("epsilon", config.train.epsilon);
  add("weight-decay", config.train.weight_decay);
  add("clip-norm", config.train.clip_norm);
  add("threads", config.train.threads);
  add("validation-share", config.data.validation_share);
  add("validation-batches", config.run.validation_batches);
  add("steps", options.steps);
  add("validate-every", options.validate_every);
  add("target", options.target);
  add("timeout", options.timeout_s);
  return arguments;
}

// Takes in a line of the script. DataLoss: a malformed line.
absl::Status TakeTorchLine(const std::string& line, TorchRun* run) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto number = [&json](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number() ? found->get<double>() : -1.0;
  };
  const double step = json.is_object() ? number("step") : -1.0;
  if (step < 0) {
    return absl::DataLossError(
        absl::StrCat("the PyTorch baseline wrote ", line, "; wanted a line of JSON with a step"));
  }
  run->steps = static_cast<uint64_t>(step);
  if (const double seconds = number("seconds"); seconds >= 0) {
    run->step_seconds.push_back(seconds);
    run->step_bytes.push_back(
        {.sent = static_cast<uint64_t>(std::max(0.0, number("sent"))),
         .received = static_cast<uint64_t>(std::max(0.0, number("received")))});
  }
  const auto reached = json.find("reached");
  if (reached != json.end() && reached->is_boolean()) run->reached = reached->get<bool>();
  return absl::OkStatus();
}

class Ranks {
 public:
  explicit Ranks(const TorchRunOptions& options) : options_(options) {}

  absl::Status Start() {
    const std::string threads = absl::StrCat(options_.config.train.threads);
    for (uint32_t rank = 0; rank < options_.config.run.workers; ++rank) {
      ProcessOptions process;
      process.name = absl::StrCat(options_.name, "-rank-", rank);
      process.argv = options_.network->Prefix(absl::StrCat("worker-", rank));
      process.argv.insert(process.argv.end(), {options_.python, "-B", kScript});
      const std::vector<std::string> arguments = Arguments(options_, rank);
      process.argv.insert(process.argv.end(), arguments.begin(), arguments.end());
      process.log_file = absl::StrCat(options_.folder, "/", process.name, ".log");
      process.environment = {{"GLOO_SOCKET_IFNAME", std::string(LinkNetwork::kData)},
                             {"OMP_NUM_THREADS", threads},
                             {"CUDA_VISIBLE_DEVICES", ""}};
      LONGWAVE_ASSIGN_OR_RETURN(std::unique_ptr<Process> started, Process::Start(process));
      processes_.push_back(std::move(started));
    }
    return absl::OkStatus();
  }

  absl::Status Watch(TorchRun* run) {
    bool running = true;
    while (running) {
      running = false;
      std::vector<pollfd> fds = {{options_.interrupt_fd, POLLIN, 0}};
      for (const auto& process : processes_) {
        running |= process->Running();
        while (const std::optional<std::string> line = process->ReadLine()) {
          LONGWAVE_RETURN_IF_ERROR(TakeTorchLine(*line, run));
        }
        if (process->output_fd() >= 0) fds.push_back({process->output_fd(), POLLIN, 0});
      }
      for (const auto& process : processes_) {
        if (!process->Running() && !process->succeeded()) return FailureOf(*process);
      }
      if (running) (void)poll(fds.data(), fds.size(), kLookMs);
      if (running && fds[0].revents != 0) return absl::CancelledError("interrupted");
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status FailureOf(const Process& process) {
    const std::string last = LastLineOf(process.log_file());
    return absl::AbortedError(absl::StrCat(process.name(), ": ",
                                           last.empty() ? process.FailureSentence() : last,
                                           "; see ", process.log_file()));
  }

  const TorchRunOptions& options_;
  std::vector<std::unique_ptr<Process>> processes_;
};

// Over all but the first.
template <typename Value, typename Get>
double MeanOfRest(const std::vector<Value>& values, const Get& get) {
  if (values.size() < 2) return 0;
  double sum = 0;
  for (size_t i = 1; i < values.size(); ++i) sum += static_cast<double>(get(values[i]));
  return sum / static_cast<double>(values.size() - 1);
}

}  // namespace

double TorchRun::SecondsPerStep() const {
  return MeanOfRest(step_seconds, [](double seconds) { return seconds; });
}

double TorchRun::BytesUpPerStep() const {
  return MeanOfRest(step_bytes, [](const InterfaceBytes& bytes) { return bytes.sent; });
}

double TorchRun::BytesDownPerStep() const {
  return MeanOfRest(step_bytes, [](const InterfaceBytes& bytes) { return bytes.received; });
}

absl::StatusOr<TorchRun> RunTorch(const TorchRunOptions& options) {
  TorchRun run;
  Ranks ranks(options);
  LONGWAVE_RETURN_IF_ERROR(ranks.Start());
  LONGWAVE_RETURN_IF_ERROR(ranks.Watch(&run));
  return run;
}

}  // namespace longwave
