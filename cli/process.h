#ifndef LONGWAVE_CLI_PROCESS_H_
#define LONGWAVE_CLI_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longwave {

struct ProcessOptions {
  std::string name;                                              // for people: "worker-2"
  std::vector<std::string> argv;                                 // argv[0] is the program's path
  std::string log_file;                                          // takes its standard error
  std::vector<std::pair<std::string, std::string>> environment;  // set on top of ours
};

// A child process whose standard output we read as lines. It has a process group of its own, so
// that the terminal's Ctrl-C does not reach it, and the kernel kills it should we die before it,
// however we die. Start only from a thread that lives as long as the process: the kernel's watch is
// on it.
class Process {
 public:
  // Unavailable: the program cannot be run (says why).
  static absl::StatusOr<std::unique_ptr<Process>> Start(const ProcessOptions& options);
  // Kills the process and waits for it, if it still runs. What it has started and left in its group
  // ends with it, here and in Running.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const std::string& name() const { return name_; }
  pid_t pid() const { return pid_; }
  const std::string& log_file() const { return log_file_; }

  // Readable when there is output, and once the process has ended; -1 after that was read.
  int output_fd() const { return output_fd_; }
  // Takes in what there is and returns the next whole line, if any. Never blocks.
  std::optional<std::string> ReadLine();

  // True while it runs. Never blocks; notes the end.
  bool Running();
  // Of a process that has ended: its exit status was 0.
  bool succeeded() const { return wait_status_ == 0; }
  // Of a process that has ended: the signal that killed it; nothing if it ended by itself.
  std::optional<int> killed_by() const;
  // Of a process that has ended: a sentence that says how. The last line of its log that says why
  // (LastErrorLine); else its exit status or signal.
  std::string FailureSentence() const;

  // Sends a signal, if it still runs.
  void Signal(int signal);

 private:
  Process(std::string name, pid_t pid, int output_fd, std::string log_file)
      : name_(std::move(name)), pid_(pid), output_fd_(output_fd), log_file_(std::move(log_file)) {}

  std::string name_;
  pid_t pid_;
  int output_fd_;
  std::string log_file_;
  std::string output_;  // read and not yet returned
  bool running_ = true;
  int wait_status_ = 0;
};

// The last line of `text` that starts with "error: ", without that, or with which a traceback of
// Python's closes ("ValueError: no such column"); empty if there is none.
std::string LastErrorLine(std::string_view text);

}  // namespace longwave

#endif  // LONGWAVE_CLI_PROCESS_H_
