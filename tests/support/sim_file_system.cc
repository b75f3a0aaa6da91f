#include "tests/support/sim_file_system.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

absl::Status Stopped() { return absl::AbortedError("the simulated machine has stopped"); }

}  // namespace

class SimFileSystem::Writable final : public WritableFile {
 public:
  Writable(SimFileSystem* files, std::string path, ContentPtr content)
      : files_(files),
        path_(std::move(path)),
        content_(std::move(content)),
        generation_(files->generation_) {}

  absl::Status Append(BytePieces pieces) override {
    if (generation_ != files_->generation_) return Stopped();
    return files_->Append(path_, *content_, pieces);
  }
  absl::Status Sync() override {
    if (generation_ != files_->generation_) return Stopped();
    return files_->Sync(path_, *content_);
  }

 private:
  SimFileSystem* files_;
  std::string path_;
  ContentPtr content_;
  uint64_t generation_;
};

class SimFileSystem::Readable final : public ReadableFile {
 public:
  Readable(const SimFileSystem* files, std::string path, ContentPtr content)
      : files_(files),
        path_(std::move(path)),
        content_(std::move(content)),
        generation_(files->generation_) {}

  absl::StatusOr<uint64_t> Size() const override {
    LONGWAVE_RETURN_IF_ERROR(CheckAlive());
    return content_->seen.size();
  }
  absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    LONGWAVE_RETURN_IF_ERROR(CheckAlive());
    if (files_->faults.reads_fail) return absl::ResourceExhaustedError("too many open files");
    const std::vector<std::byte>& bytes = content_->seen;
    if (offset > bytes.size() || out.size() > bytes.size() - offset) {
      return absl::OutOfRangeError(absl::StrCat(path_, ": ends at ", bytes.size(), ", wanted ",
                                                out.size(), " bytes from ", offset));
    }
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
    return absl::OkStatus();
  }

 private:
  absl::Status CheckAlive() const {
    if (generation_ != files_->generation_) return Stopped();
    return files_->CheckRunning();
  }

  const SimFileSystem* files_;
  std::string path_;
  ContentPtr content_;
  uint64_t generation_;
};

class SimFileSystem::Held final : public FileLock {
 public:
  Held(SimFileSystem* files, std::string path)
      : files_(files), path_(std::move(path)), generation_(files->generation_) {}
  ~Held() override {
    if (generation_ == files_->generation_) files_->locks_.erase(path_);
  }

 private:
  SimFileSystem* files_;
  std::string path_;
  uint64_t generation_;
};

absl::Status SimFileSystem::CheckRunning() const { return crashed_ ? Stopped() : absl::OkStatus(); }

absl::Status SimFileSystem::Begin(bool& stops_now) {
  LONGWAVE_RETURN_IF_ERROR(CheckRunning());
  stops_now = faults.crash_at == operations_++;
  crashed_ = stops_now;
  return absl::OkStatus();
}

absl::Status SimFileSystem::Find(const std::string& path, ContentPtr& content) const {
  LONGWAVE_RETURN_IF_ERROR(CheckRunning());
  const auto found = seen_.find(path);
  if (found == seen_.end())
    return absl::NotFoundError(absl::StrCat(path, ": there is no such file"));
  content = found->second;
  return absl::OkStatus();
}

uint64_t SimFileSystem::UsedBytes() const {
  uint64_t bytes = 0;
  for (const auto& [path, content] : seen_) bytes += content->seen.size();
  return bytes;
}

absl::StatusOr<std::unique_ptr<WritableFile>> SimFileSystem::Create(const std::string& path) {
  bool stops_now = false;
  LONGWAVE_RETURN_IF_ERROR(Begin(stops_now));
  if (seen_.contains(path)) {
    return absl::AlreadyExistsError(absl::StrCat(path, ": there is such a file already"));
  }
  if (!folders_.contains(FolderOf(path))) {
    return absl::NotFoundError(absl::StrCat(path, ": there is no such folder"));
  }
  const NameChange change{"", path, std::make_shared<Content>()};
  Apply(change, seen_);
  unsynced_.push_back(change);
  if (stops_now) return Stopped();
  return std::make_unique<Writable>(this, path, change.content);
}

absl::StatusOr<std::unique_ptr<WritableFile>> SimFileSystem::OpenToAppend(const std::string& path) {
  ContentPtr content;
  LONGWAVE_RETURN_IF_ERROR(Find(path, content));
  return std::make_unique<Writable>(this, path, std::move(content));
}

absl::StatusOr<std::unique_ptr<ReadableFile>> SimFileSystem::OpenToRead(const std::string& path) {
  ContentPtr content;
  LONGWAVE_RETURN_IF_ERROR(Find(path, content));
  return std::make_unique<Readable>(this, path, std::move(content));
}

absl::Status SimFileSystem::Append(const std::string& path, Content& content, BytePieces pieces) {
  bool stops_now = false;
  LONGWAVE_RETURN_IF_ERROR(Begin(stops_now));
  uint64_t wanted = 0;
  for (const auto& piece : pieces) wanted += piece.size();
  const uint64_t used = UsedBytes();
  const uint64_t capacity = faults.capacity_bytes.value_or(std::numeric_limits<uint64_t>::max());
  const uint64_t free = capacity - std::min(capacity, used);
  const bool fails = faults.failed_append_at == appends_++;
  uint64_t fits = std::min(wanted, free);
  if (stops_now || fails) fits = rng_.Below(fits + 1);
  uint64_t left = fits;
  for (const auto& piece : pieces) {
    const auto part = piece.first(std::min<uint64_t>(piece.size(), left));
    content.seen.insert(content.seen.end(), part.begin(), part.end());
    left -= part.size();
  }
  if (stops_now) return Stopped();
  if (fails) return absl::UnknownError(absl::StrCat(path, ": cannot write: simulated failure"));
  if (fits < wanted) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, ": the disk is full: wanted ", wanted, " bytes, ", free, " are free"));
  }
  return absl::OkStatus();
}

void SimFileSystem::WriteSome(Content& content) {
  const size_t begin = content.dirty_from;
  const size_t dirty = content.seen.size() - begin;
  // Often all of it, so that the bytes after a hole are read as well.
  const size_t length = begin + (rng_.Below(3) == 0 ? dirty : rng_.Below(dirty + 1));
  const bool holes = rng_.Below(2) == 0;
  content.on_disk.resize(std::max(begin, length));
  for (size_t at = begin, count = 0; at < length; at += count) {
    count = std::min(kSectorBytes - at % kSectorBytes, length - at);
    if (holes && rng_.Below(4) == 0) continue;
    std::copy_n(content.seen.begin() + static_cast<ptrdiff_t>(at), count,
                content.on_disk.begin() + static_cast<ptrdiff_t>(at));
  }
}

absl::Status SimFileSystem::Sync(const std::string& path, Content& content) {
  bool stops_now = false;
  LONGWAVE_RETURN_IF_ERROR(Begin(stops_now));
  const bool fails = faults.failed_sync_at == syncs_++;
  if (fails) {
    WriteSome(content);
    content.on_disk.resize(content.seen.size());
    content.dirty_from = content.seen.size();
    return absl::UnknownError(absl::StrCat(path, ": cannot sync: simulated failure"));
  }
  if (faults.syncs_lie) return stops_now ? Stopped() : absl::OkStatus();
  if (stops_now && rng_.Below(2) == 0) return Stopped();
  content.on_disk.resize(content.dirty_from);
  content.on_disk.insert(content.on_disk.end(),
                         content.seen.begin() + static_cast<ptrdiff_t>(content.dirty_from),
                         content.seen.end());
  content.dirty_from = content.seen.size();
  return stops_now ? Stopped() : absl::OkStatus();
}

absl::Status SimFileSystem::Settle(const std::string& path, std::span<const std::byte> verified) {
  bool stops_now = false;
  LONGWAVE_RETURN_IF_ERROR(Begin(stops_now));
  const auto found = seen_.find(path);
  if (found == seen_.end())
    return absl::NotFoundError(absl::StrCat(path, ": there is no such file"));
  Content& content = *found->second;
  const size_t bytes = verified.size();
  if (content.seen.size() < bytes) {
    return absl::OutOfRangeError(
        absl::StrCat(path, ": has ", content.seen.size(), " bytes, wanted at least ", bytes));
  }
  // The crash comes before Settle begins, after the cut, or after Settle.
  const uint64_t progress = stops_now ? rng_.Below(3) : 2;
  if (progress >= 1) {
    content.seen.resize(bytes);
    content.on_disk.resize(std::min(content.on_disk.size(), bytes));
    content.dirty_from = std::min(content.dirty_from, bytes);
  }
  if (progress == 2) {
    content.seen.assign(verified.begin(), verified.end());
    content.on_disk = content.seen;
    content.dirty_from = content.seen.size();
  }
  return stops_now ? Stopped() : absl::OkStatus();
}

void SimFileSystem::Apply(const NameChange& change, Names& names) {
  if (!change.from.empty()) {
    const auto from = names.find(change.from);
    if (from != names.end() && from->second == change.content) names.erase(from);
  }
  if (!change.to.empty()) names[change.to] = change.content;
}

absl::Status SimFileSystem::Rename(const std::string& from, const std::string& to) {
  bool stops_now = false;
  LONGWAVE_RETURN_IF_ERROR(Begin(stops_now));
  const auto found = seen_.find(from);
  if (found == seen_.end())
    return absl::NotFoundError(absl::StrCat(from, ": there is no such file"));
  LONGWAVE_CHECK(FolderOf(from) == FolderOf(to));
  const NameChange change{from, to, found->second};
  Apply(change, seen_);
  unsynced_.push_back(change);
  return stops_now ? Stopped() : absl::OkStatus();
}

absl::Status SimFileSystem::Remove(const std::string& path) {
  bool stops_now = false;
  LONGWAVE_RETURN_IF_ERROR(Begin(stops_now));
  const auto found = seen_.find(path);
  if (found == seen_.end())
    return absl::NotFoundError(absl::StrCat(path, ": there is no such file"));
  const NameChange change{path, "", found->second};
  Apply(change, seen_);
  unsynced_.push_back(change);
  return stops_now ? Stopped() : absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> SimFileSystem::List(const std::string& folder) {
  LONGWAVE_RETURN_IF_ERROR(CheckRunning());
  if (!folders_.contains(folder)) {
    return absl::NotFoundError(absl::StrCat(folder, ": there is no such folder"));
  }
  std::vector<std::string> names;
  for (const auto& [path, content] : seen_) {
    if (FolderOf(path) == folder) names.push_back(path.substr(path.rfind('/') + 1));
  }
  return names;
}

absl::Status SimFileSystem::CreateFolder(const std::string& folder) {
  bool stops_now = false;
  LONGWAVE_RETURN_IF_ERROR(Begin(stops_now));
  for (std::string each = folder;; each = FolderOf(each)) {
    folders_.insert(each);
    if (each.empty()) break;
  }
  return stops_now ? Stopped() : absl::OkStatus();
}

absl::Status SimFileSystem::SyncFolder(const std::string& folder) {
  bool stops_now = false;
  LONGWAVE_RETURN_IF_ERROR(Begin(stops_now));
  if (stops_now && rng_.Below(2) == 0) return Stopped();
  std::vector<NameChange> others;
  for (const NameChange& change : unsynced_) {
    if (FolderOf(change.to.empty() ? change.from : change.to) == folder) {
      Apply(change, on_disk_);
    } else {
      others.push_back(change);
    }
  }
  unsynced_ = std::move(others);
  return stops_now ? Stopped() : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FileLock>> SimFileSystem::Lock(const std::string& path) {
  LONGWAVE_RETURN_IF_ERROR(CheckRunning());
  if (!locks_.insert(path).second) {
    return absl::UnavailableError(absl::StrCat(path, ": another process holds this lock"));
  }
  return std::make_unique<Held>(this, path);
}

std::unique_ptr<SimFileSystem> SimFileSystem::Copy(uint64_t seed) const {
  auto copy = std::make_unique<SimFileSystem>(seed);
  for (const auto& [path, content] : seen_) {
    copy->seen_[path] = std::make_shared<Content>(Content{
        .seen = content->seen, .on_disk = content->seen, .dirty_from = content->seen.size()});
  }
  copy->on_disk_ = copy->seen_;
  copy->folders_ = folders_;
  return copy;
}

void SimFileSystem::Restart(Stop stop) {
  ++generation_;
  crashed_ = false;
  faults.crash_at.reset();
  locks_.clear();
  if (stop == Stop::kProcess) return;

  const bool in_order = rng_.Below(2) == 0;
  const uint64_t kept = rng_.Below(unsynced_.size() + 1);
  for (size_t i = 0; i < unsynced_.size(); ++i) {
    if (in_order ? i < kept : rng_.Below(2) == 0) Apply(unsynced_[i], on_disk_);
  }
  unsynced_.clear();
  seen_ = on_disk_;
  // A content may have two names now. Both name the same file, which is written once.
  std::set<Content*> contents;
  for (const auto& [path, content] : seen_) {
    if (!contents.insert(content.get()).second) continue;
    WriteSome(*content);
    content->seen = content->on_disk;
    content->dirty_from = content->seen.size();
  }
}

void SimFileSystem::Corrupt(const std::string& path, uint64_t offset, std::byte mask) {
  const auto found = seen_.find(path);
  LONGWAVE_CHECK(found != seen_.end() && offset < found->second->seen.size());
  Content& content = *found->second;
  content.seen[offset] ^= mask;
  if (offset < content.on_disk.size()) content.on_disk[offset] = content.seen[offset];
}

}  // namespace longwave
