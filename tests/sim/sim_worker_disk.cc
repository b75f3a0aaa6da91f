// SimWorker's disk: the journal of pushes, and checkpoints that are written meanwhile.
#include <algorithm>
#include <utility>

#include "tests/sim/sim_worker.h"

namespace longwave::sim {
namespace {

constexpr absl::Duration kWriteTimeMax = absl::Seconds(4);  // of a checkpoint: some rounds

}  // namespace

// A shard that loses its folder, and a replica that is damaged, need the others' replicas, so that
// none of them dies then.
void SimWorker::DrawDiskFaults() {
  const auto& faults = env_.settings->faults;
  const bool needs_replicas = std::ranges::any_of(faults, [](const Fault& one) {
    return one.kind == FaultKind::kLoseFolder || one.kind == FaultKind::kDamage;
  });
  if (faults.empty() || needs_replicas) return;
  tears_journal_ = disk_rng_.Below(3) == 0;
  halves_checkpoint_ = disk_rng_.Below(3) == 0;
  damages_journal_ = disk_rng_.Below(4) == 0;
}

void SimWorker::BeginJournal(uint64_t write) {
  journal_ = std::make_unique<PushJournal>(disk_.get(), folder_->path());
  journal_->Begin({.run = session_->run(),
                   .layout_hash = env_.layout->hash(),
                   .write = write,
                   .worker = worker_});
}

absl::Status SimWorker::Record(const SegmentPush& push) {
  if (env_.settings->canary == Canary::kUnkeptFill && core().fills()) return absl::OkStatus();
  notes_.push_back({.kind = JournalKind::kPush,
                    .segment = push.segment,
                    .round = push.round,
                    .fragment = core().fragment(),
                    .accounted = push.accounted,
                    .norm = push.norm,
                    .weight = push.weight,
                    .step = core().step(),
                    .tokens = core().counts().tokens,
                    .payload = push.payload});
  has_pushed_since_ = true;
  const bool dies = tears_journal_ && disk_rng_.Below(8) == 0;
  // The crash is at a new file, its records or their sync.
  if (dies) disk_->faults.crash_at = disk_->operations() + disk_rng_.Below(2);
  const absl::Status recorded = journal_->Append(std::exchange(notes_, {}));
  if (recorded.ok() || !dies) return recorded;
  tears_journal_ = false;
  env_.probes->Hit(Probe::kJournalTorn);
  stopped_ = true;
  After(absl::ZeroDuration(), [this] { CrashAndReturn(); });
  return recorded;
}

void SimWorker::WriteInBackground(Checkpoint checkpoint) {
  // Pushes that were settled before belong to the journal before.
  if (const absl::Status noted = journal_->Append(std::exchange(notes_, {})); !noted.ok())
    return Die(noted, "writes its journal");
  BeginJournal(checkpoint.write);
  written_ = std::move(checkpoint);
  written_account_ = account_;
  has_pushed_since_ = false;
  After(disk_rng_.Uniform() * kWriteTimeMax, [this] { EndWrite(); });
}

void SimWorker::EndWrite() {
  if (!written_.has_value() || stopped_) return;
  const Checkpoint checkpoint = *std::exchange(written_, std::nullopt);
  const bool dies = halves_checkpoint_ && has_pushed_since_ && disk_rng_.Below(2) == 0;
  // The crash is at the file's bytes, their sync, or its name.
  if (dies) disk_->faults.crash_at = disk_->operations() + 1 + disk_rng_.Below(4);
  absl::Status written = folder_->WriteBeside(checkpoint, [](uint64_t) { return true; });
  if (written.ok()) {
    // A crash may leave either.
    kept_before_ = std::exchange(kept_account_, written_account_);
    kept_write_ = checkpoint.write;
    written = folder_->Adopt(checkpoint.write);
  }
  if (written.ok() && env_.settings->canary == Canary::kCutJournal)
    written = RemoveJournalsBefore(*disk_, folder_->path(), checkpoint.write + 1);
  if (dies && !written.ok()) {
    halves_checkpoint_ = false;
    env_.probes->Hit(Probe::kCheckpointHalfWritten);
    return CrashAndReturn();
  }
  if (!written.ok()) return Die(written, "writes a checkpoint");
  ranks_[0].core->CheckpointEnded(/*ok=*/true, now());
  Pump();
}

void SimWorker::RecoverAccount(const FoundCheckpoint& found) {
  const Checkpoint& checkpoint = found.checkpoint;
  const auto records = ReadJournals(*disk_, folder_->path(), checkpoint.write, nullptr);
  if (!records.ok()) return;  // the residual is of no use
  account_ = checkpoint.write < kept_write_ ? kept_before_ : kept_account_;
  if (!records->empty()) env_.probes->Hit(Probe::kJournalApplied);
  env_.checker->Recovered(&account_, checkpoint.round, checkpoint.pushes, *records);
}

// Damages a record, perhaps the only one, as a bad disk does.
void SimWorker::DamageJournal() {
  const auto writes = ListJournals(*disk_, kWorkerFolder);
  if (!writes.ok() || writes->empty()) return;
  const std::string path = JoinPath(kWorkerFolder, JournalName(writes->front()));
  const auto scan = [&] { return ScanJournal(*ReadWhole(*disk_, path, uint64_t{1} << 30)); };
  const uint64_t at = kJournalHeaderBytes + kJournalHeadBytes - 1;
  if (!scan().ok() || scan()->records.empty()) return;
  disk_->Corrupt(path, at, std::byte{1});
  const auto damaged = scan();
  if (!damaged.ok() || !damaged->fault_was_durable) return disk_->Corrupt(path, at, std::byte{1});
  damages_journal_ = false;
  env_.probes->Hit(Probe::kJournalDamaged);
  if (env_.settings->canary != Canary::kTrustedJournal) return;
  const Buffer bytes = *ReadWhole(*disk_, path, uint64_t{1} << 30);
  if (!disk_->Settle(path, bytes.bytes().first(damaged->end)).ok()) return;
}

}  // namespace longwave::sim
