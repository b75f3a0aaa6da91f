#include "worker/data/corpus.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;

constexpr char kHeaderRoot[] = "/usr/include/c++";

// Keeps the streams of batches apart from others that are drawn from the same seed.
constexpr uint64_t kBatchStream = 0x6261746368;  // "batch"

absl::Status FileError(const std::string& path, const std::error_code& error) {
  std::string text = absl::StrCat("data: ", path, ": ", error.message());
  if (error == std::errc::no_such_file_or_directory) return absl::NotFoundError(text);
  if (error == std::errc::permission_denied) return absl::PermissionDeniedError(text);
  return absl::DataLossError(text);
}

// The folder of the newest compiler: 13 comes after 9.
absl::StatusOr<std::string> NewestHeaders() {
  std::error_code error;
  std::string newest;
  int newest_version = -1;
  for (const fs::directory_entry& entry : fs::directory_iterator(kHeaderRoot, error)) {
    int version = 0;
    std::error_code ignored;
    if (entry.is_directory(ignored) &&
        absl::SimpleAtoi(entry.path().filename().string(), &version) && version > newest_version) {
      newest_version = version;
      newest = entry.path().string();
    }
  }
  if (newest.empty()) {
    return absl::NotFoundError(absl::StrCat("data: no compiler's headers under ", kHeaderRoot,
                                            "; wanted a folder such as ", kHeaderRoot,
                                            "/12, or data.path naming a file or folder"));
  }
  return newest;
}

// A file of the corpus, open for reading, after `size_before` bytes of others.
struct OpenFile {
  std::ifstream stream;
  uint64_t size = 0;
};

absl::StatusOr<OpenFile> Open(const std::string& path, uint64_t size_before) {
  std::error_code error;
  OpenFile file{.size = fs::file_size(path, error)};
  if (error) return FileError(path, error);
  if (file.size > kCorpusBytesMax || size_before > kCorpusBytesMax - file.size) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "data: more than ", kCorpusBytesMax >> 30, " GiB of text up to ", path,
        "; wanted at most that, which a worker holds in memory: name a smaller file or "
        "folder, another one on each worker if you like"));
  }
  errno = 0;
  file.stream.open(path, std::ios::binary);
  if (!file.stream) return FileError(path, std::error_code(errno, std::generic_category()));
  return file;
}

absl::Status AppendFile(const std::string& path, std::string* text) {
  LONGWAVE_ASSIGN_OR_RETURN(OpenFile file, Open(path, text->size()));
  const size_t begin = text->size();
  text->resize(begin + file.size);
  file.stream.read(text->data() + begin, static_cast<std::streamsize>(file.size));
  if (static_cast<uint64_t>(file.stream.gcount()) != file.size) {
    return absl::DataLossError(absl::StrCat("data: ", path, ": read ", file.stream.gcount(),
                                            " bytes, wanted ", file.size));
  }
  return absl::OkStatus();
}

// The bytes of the training part out of `size`, both parts being long enough.
absl::StatusOr<size_t> TrainSize(uint64_t size, double validation_share, uint32_t context,
                                 const std::string& source) {
  if (size == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: ", source, " holds no bytes; wanted text"));
  }
  if (!(validation_share >= 0 && validation_share < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("data.validation_share is ", validation_share,
                                                   "; wanted 0 or more and below 1"));
  }
  const auto train_size =
      static_cast<uint64_t>(std::floor(static_cast<double>(size) * (1 - validation_share)));
  const uint64_t wanted = uint64_t{context} + 1;
  for (const auto& [part, part_size] : {std::pair<const char*, uint64_t>{"training", train_size},
                                        {"validation", size - train_size}}) {
    if (part_size < wanted) {
      return absl::InvalidArgumentError(
          absl::StrCat("data: ", source, " leaves ", part_size, " bytes to the ", part,
                       " part; wanted at least ", wanted, " (model.context + 1)"));
    }
  }
  return train_size;
}

// The regular files under `root`, in no order. Links to folders are not followed: they may form a
// circle.
absl::StatusOr<std::vector<std::string>> FilesUnder(const std::string& root) {
  std::vector<std::string> files, folders = {root};
  while (!folders.empty()) {
    const std::string folder = std::move(folders.back());
    folders.pop_back();
    std::error_code error;
    for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator();
         it.increment(error)) {
      std::error_code ignored;
      // How Kubernetes mounts a ConfigMap: its files are links into a folder "..data" beside them.
      if (absl::StartsWith(it->path().filename().string(), "..")) continue;
      if (it->is_regular_file(ignored)) {
        files.push_back(it->path().string());
      } else if (fs::is_directory(it->symlink_status(ignored))) {
        folders.push_back(it->path().string());
      }
    }
    if (error) return FileError(folder, error);
  }
  return files;
}

// A window of `length` tokens and its targets starts at any of this many bytes.
uint64_t StartCount(std::string_view part, uint32_t length) { return part.size() - length; }

void AppendWindow(std::string_view part, uint64_t start, uint32_t length, Batch* batch) {
  for (uint32_t i = 0; i < length; ++i) {
    batch->tokens.push_back(static_cast<uint8_t>(part[start + i]));
    batch->targets.push_back(static_cast<uint8_t>(part[start + i + 1]));
  }
}

Batch EmptyBatch(uint32_t rows, uint32_t length) {
  Batch batch{.rows = rows, .length = length};
  batch.tokens.reserve(size_t{rows} * length);
  batch.targets.reserve(size_t{rows} * length);
  return batch;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> CorpusFiles(const std::string& path) {
  std::string root = path;
  if (path == kCompilerHeaders) {
    LONGWAVE_ASSIGN_OR_RETURN(root, NewestHeaders());
  }
  static constexpr absl::string_view kWanted = "wanted a file, a folder or ";
  if (root.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: got an empty path, ", kWanted, kCompilerHeaders));
  }
  std::error_code error;
  const fs::file_status status = fs::status(root, error);
  if (status.type() == fs::file_type::not_found) {
    return absl::NotFoundError(
        absl::StrCat("data: ", root, " does not exist; ", kWanted, kCompilerHeaders));
  }
  if (!fs::status_known(status)) return FileError(root, error);
  if (fs::is_regular_file(status)) return std::vector<std::string>{root};
  // A device or a pipe has no size, and reading it may never end.
  if (!fs::is_directory(status)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data: ", root, " is not a file or folder of text; ", kWanted, kCompilerHeaders));
  }
  LONGWAVE_ASSIGN_OR_RETURN(std::vector<std::string> files, FilesUnder(root));
  std::sort(files.begin(), files.end());
  return files;
}

absl::Status CheckCorpus(const DataSection& data, uint32_t context) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::string> files, CorpusFiles(data.path));
  uint64_t size = 0;
  for (const std::string& path : files) {
    LONGWAVE_ASSIGN_OR_RETURN(const OpenFile file, Open(path, size));
    size += file.size;
  }
  return TrainSize(size, data.validation_share, context, data.path).status();
}

absl::StatusOr<Corpus> Corpus::Load(const DataSection& data, uint32_t context) {
  LONGWAVE_ASSIGN_OR_RETURN(const std::vector<std::string> files, CorpusFiles(data.path));
  std::string text;
  for (const std::string& file : files) LONGWAVE_RETURN_IF_ERROR(AppendFile(file, &text));
  return FromText(std::move(text), data.validation_share, context, data.path);
}

absl::StatusOr<Corpus> Corpus::FromText(std::string text, double validation_share, uint32_t context,
                                        const std::string& source) {
  LONGWAVE_ASSIGN_OR_RETURN(const size_t train_size,
                            TrainSize(text.size(), validation_share, context, source));
  return Corpus(std::move(text), train_size);
}

Batch Corpus::TrainBatch(uint64_t seed, uint32_t worker, uint64_t step, uint32_t rows,
                         uint32_t length) const {
  LONGWAVE_CHECK(length < train().size());
  Rng rng(Mix64(seed ^ kBatchStream) + worker, step);
  Batch batch = EmptyBatch(rows, length);
  for (uint32_t row = 0; row < rows; ++row) {
    AppendWindow(train(), rng.Below(StartCount(train(), length)), length, &batch);
  }
  return batch;
}

Batch Corpus::ValidationBatch(uint32_t index, uint32_t count, uint32_t rows,
                              uint32_t length) const {
  LONGWAVE_CHECK(length < validation().size() && index < count);
  const uint64_t starts = StartCount(validation(), length);
  const uint64_t windows = uint64_t{count} * rows;
  Batch batch = EmptyBatch(rows, length);
  for (uint32_t row = 0; row < rows; ++row) {
    const uint64_t window = uint64_t{index} * rows + row;
    AppendWindow(validation(), window * starts / windows, length, &batch);
  }
  return batch;
}

}  // namespace longwave
