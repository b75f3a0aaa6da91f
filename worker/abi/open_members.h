#ifndef LONGWAVE_WORKER_ABI_OPEN_MEMBERS_H_
#define LONGWAVE_WORKER_ABI_OPEN_MEMBERS_H_

#include "absl/status/status.h"

namespace longwave {

class AbiMember;

// The members of this process, and whether the process itself made them: a forked child has their
// memory, but not their threads, and their sockets belong to the parent. Thread-safe.
//
// At the exit of the process, open members are closed before the libraries below them are
// destroyed, except a member that another thread keeps busy for seconds.

// Called before the process makes its first member, or anything else that a fork would break.
void NoteProcess();

// FailedPrecondition: this process was forked from one that had a member.
absl::Status CheckNotForked();
bool IsForked();

void AddOpenMember(AbiMember* member);
// Deletes an open member; ignores others. A call in another thread is told to end, and a member
// whose call does not end within seconds stays in memory.
void CloseMember(AbiMember* member);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_ABI_OPEN_MEMBERS_H_
