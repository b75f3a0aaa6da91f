#ifndef LONGWAVE_WORKER_ABI_OPEN_MEMBERS_H_
#define LONGWAVE_WORKER_ABI_OPEN_MEMBERS_H_

#include "absl/status/status.h"

namespace longwave {

class AbiMember;

// Which members this process has, and whether it is the process that made them: a forked child has
// their memory, but none of their threads, and sockets that are its parent's. Thread-safe.
//
// When the process exits, members that are still open are closed before the libraries below them
// are taken down, but for one that another thread is busy with for seconds.

// Before this process has its first member, or anything that a fork would break.
void NoteProcess();

// FailedPrecondition, once this process was forked from one that had a member.
absl::Status CheckNotForked();
bool IsForked();

void AddOpenMember(AbiMember* member);
// Deletes an open member; nothing of one that is not. A call that another thread is in is told to
// end, and a member whose call does not end within seconds stays in memory.
void CloseMember(AbiMember* member);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_ABI_OPEN_MEMBERS_H_
