#ifndef LONGWAVE_TESTS_BENCH_LINK_NAMESPACE_H_
#define LONGWAVE_TESTS_BENCH_LINK_NAMESPACE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longwave {

// A network namespace without a name: it lives as long as this object or a process in it does. So
// nothing can collide with another run, and nothing is left behind however this process ends.
class NetNamespace {
 public:
  // PermissionDenied: not root. Unavailable: the kernel gives none.
  static absl::StatusOr<std::unique_ptr<NetNamespace>> Create();
  ~NetNamespace();
  NetNamespace(const NetNamespace&) = delete;
  NetNamespace& operator=(const NetNamespace&) = delete;

  // A path that other processes of root can open while this process lives: /proc/<pid>/fd/<n>.
  std::string path() const;

  // Moves the calling thread, and whatever it starts from now on, into the namespace.
  absl::Status Enter() const;

  // Calls `action` on a thread that lives in the namespace, and waits for it.
  absl::Status Do(const std::function<absl::Status()>& action) const;

 private:
  explicit NetNamespace(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_BENCH_LINK_NAMESPACE_H_
