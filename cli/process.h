#ifndef LONGWAVE_CLI_PROCESS_H_
#define LONGWAVE_CLI_PROCESS_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace longwave {

struct ProcessOptions {
  std::string name;                                // for people: "worker-2"
  std::vector<std::string> argv;                   // argv[0] is the program's path
  std::string log_file;                            // receives standard error
  std::map<std::string, std::string> environment;  // added to this process's
  bool is_command = false;                         // a user's, which may have children of its own
};

// A child process whose standard output is read as lines. The child has a process group of its own,
// so that the terminal's Ctrl-C does not reach it. If this process dies first, however it dies, the
// kernel kills the child; of a command, a guard (a process beside it) kills the whole group. Start
// only from a thread that lives as long as the child: the kernel watches that thread.
class Process {
 public:
  // Errors: Unavailable, with the reason (the program cannot be run).
  static absl::StatusOr<std::unique_ptr<Process>> Start(const ProcessOptions& options);
  // Kills a running process and waits for its end. Here and in Running, the processes of its group
  // end with it.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const std::string& name() const { return name_; }
  pid_t pid() const { return pid_; }
  const std::string& log_file() const { return log_file_; }
  // The log's size at the start: earlier processes of the name wrote what is before.
  off_t log_begin() const { return log_begin_; }

  // Readable when there is output and after the process's end; -1 once that end was read.
  int output_fd() const { return output_fd_; }
  // The next whole line of the output, if any; one of more than 64 KiB comes in parts. Never
  // blocks.
  std::optional<std::string> ReadLine();

  // Whether the process runs. Never blocks.
  bool Running();
  // After its end: whether the exit status was 0.
  bool succeeded() const { return wait_status_ == 0; }
  // After its end: the signal that killed it; nullopt if none did.
  std::optional<int> killed_by() const;
  // After its end: the reason in a sentence. LastErrorLine of its part of the log, or else its exit
  // status or signal.
  std::string FailureSentence() const;

  // Sends a signal if the process runs.
  void Signal(int signal);

 private:
  Process(std::string name, pid_t pid, pid_t guard, int output_fd, std::string log_file,
          off_t log_begin)
      : name_(std::move(name)),
        pid_(pid),
        guard_(guard),
        output_fd_(output_fd),
        log_file_(std::move(log_file)),
        log_begin_(log_begin) {}

  // Once: the guard ends with the others.
  void EndGroup();

  std::string name_;
  pid_t pid_;
  pid_t guard_;  // -1: none
  int output_fd_;
  std::string log_file_;
  off_t log_begin_;
  std::string output_;   // read and not yet returned
  size_t searched_ = 0;  // so many of its bytes have no line's end
  bool running_ = true;
  int wait_status_ = 0;
};

// The last line of `text` that starts with "error: ", without that prefix, or the last line of a
// Python traceback ("ValueError: no such column"); empty if there is none.
std::string LastErrorLine(std::string_view text);

}  // namespace longwave

#endif  // LONGWAVE_CLI_PROCESS_H_
