#include "worker/abi/open_members.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/errors.h"
#include "worker/abi/abi_member.h"

namespace longwave {
namespace {

constexpr absl::Duration kClosePatience = absl::Seconds(3);

struct OpenMembers {
  std::mutex mutex;
  std::set<AbiMember*> members;
};

// Never destroyed, since it is used until the process exits.
OpenMembers& Open() {
  static auto* const open = new OpenMembers;
  return *open;
}

std::atomic<pid_t> first_process = 0;

// Tells a call in another thread to end. Leaks the member if the call does not end.
void DeleteOnceIdle(AbiMember* member, absl::Time give_up) {
  bool is_mine = member->Enter();
  if (!is_mine) member->Stop();
  while (!is_mine && MonotonicNow() < give_up) {
    absl::SleepFor(absl::Milliseconds(10));
    is_mine = member->Enter();
  }
  if (is_mine) delete member;
}

void CloseAll() {
  if (IsForked()) return;
  std::set<AbiMember*> members;
  {
    std::lock_guard lock(Open().mutex);
    members.swap(Open().members);
  }
  for (AbiMember* const member : members) member->Stop();
  const absl::Time give_up = MonotonicNow() + kClosePatience;
  for (AbiMember* const member : members) DeleteOnceIdle(member, give_up);
}

}  // namespace

bool IsForked() {
  const pid_t first = first_process.load();
  return first != 0 && first != getpid();
}

absl::Status CheckNotForked() {
  if (!IsForked()) return absl::OkStatus();
  return FailedPrecondition(
      "called in a process that was forked from one that takes part in a run: only that one may; "
      "a process that is to join a run itself must be started anew (spawn, not fork)");
}

void NoteProcess() {
  pid_t none = 0;
  first_process.compare_exchange_strong(none, getpid());
}

void AddOpenMember(AbiMember* member) {
  // Registered after the statics of lower libraries, so called before their destruction.
  static const int registered = std::atexit(CloseAll);
  (void)registered;
  std::lock_guard lock(Open().mutex);
  Open().members.insert(member);
}

void CloseMember(AbiMember* member) {
  {
    std::lock_guard lock(Open().mutex);
    if (Open().members.erase(member) == 0) return;
  }
  DeleteOnceIdle(member, MonotonicNow() + kClosePatience);
}

}  // namespace longwave
