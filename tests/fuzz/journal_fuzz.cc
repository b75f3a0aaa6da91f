// Journals of pushes: the reader must not crash, read out of bounds or allocate more than the bytes
// need, and what it read is what a writer writes. Every input is also tried with a right header,
// and as the content of records.

#include <algorithm>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "worker/checkpoint/journal.h"

namespace longwave {
namespace {

constexpr JournalHeader kHeader = {.run = 1, .layout_hash = 2, .write = 3, .worker = 4};

void Add(std::vector<std::byte>& file, const JournalRecord& record, uint32_t number,
         uint32_t durable) {
  for (const auto piece : EncodeJournalRecord(record, number, durable).pieces)
    file.insert(file.end(), piece.begin(), piece.end());
}

void Read(const std::vector<std::byte>& file) {
  const auto scan = ScanJournal(Buffer(file));
  if (!scan.ok()) {
    LONGWAVE_CHECK(!scan.status().message().empty());
    return;
  }
  LONGWAVE_CHECK(scan->end <= file.size() && scan->fault.empty() == (scan->end == file.size()));
  if (scan->end == 0) return;
  // `durable` is not in a record; all else comes again.
  std::vector<std::byte> again = EncodeJournalHeader(scan->header);
  uint32_t number = 0;
  for (const JournalRecord& record : scan->records) Add(again, record, number++, 0);
  LONGWAVE_CHECK(again.size() == scan->end);
  const auto read = ScanJournal(Buffer(again));
  LONGWAVE_CHECK(read.ok() && read->records == scan->records && read->fault.empty());
}

}  // namespace
}  // namespace longwave

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longwave;
  const auto input = std::as_bytes(std::span(data, size));
  Read({input.begin(), input.end()});
  std::vector<std::byte> file = EncodeJournalHeader(kHeader);
  file.insert(file.end(), input.begin(), input.end());
  Read(file);
  // A record that is right, then the input as a payload and behind it.
  file.resize(kJournalHeaderBytes);
  Add(file, {.kind = JournalKind::kAccepted, .segment = 1}, 0, 0);
  Add(file, {.segment = 2, .payload = Buffer({input.begin(), input.end()})}, 1, 1);
  file.insert(file.end(), input.begin(), input.end());
  Read(file);
  return 0;
}
