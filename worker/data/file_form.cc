#include "worker/data/file_form.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/errors.h"

namespace longwave {
namespace {

using namespace std::string_view_literals;

// The texts of an Arrow table's column.
constexpr char kColumn[] =
    "the texts of a column: python3 -c \"import datasets; "
    "print(*datasets.Dataset.from_file('FILE')['text'], sep='\\n\\n')\" > text.txt";

struct Form {
  std::string_view magic;
  size_t offset;
  const char* name;
  const char* wanted;  // FILE stands for the path
};

constexpr Form kForms[] = {
    {"PAR1"sv, 0, "a Parquet file",
     "the texts of a column: python3 -c \"import pyarrow.parquet as p; "
     "print(*p.read_table('FILE')['text'].to_pylist(), sep='\\n\\n')\" > text.txt"},
    {"ARROW1"sv, 0, "an Arrow file", kColumn},
    {"\xff\xff\xff\xff"sv, 0, "an Arrow stream", kColumn},
    {"ustar"sv, 257, "a tar archive", "the files in it: tar -xf FILE"},
    {"PK\x03\x04"sv, 0, "a zip archive", "the files in it: unzip FILE"},
    {"\x1f\x8b\x08"sv, 0, "a file of gzip", "its content: gunzip FILE"},
    {"\x28\xb5\x2f\xfd"sv, 0, "a file of zstd", "its content: unzstd FILE"},
    {"1AY&SY"sv, 4, "a file of bzip2", "its content: bunzip2 FILE"},
    {"\xfd"
     "7zXZ\0"sv,
     0, "a file of xz", "its content: unxz FILE"},
    {"\x04\x22\x4d\x18"sv, 0, "a file of lz4", "its content: unlz4 FILE"},
    {"%PDF-"sv, 0, "a PDF", "its text: pdftotext FILE"},
    {"\x93NUMPY"sv, 0, "a NumPy array",
     "its numbers alone: python3 -c \"import numpy; "
     "numpy.load('FILE').astype('<u2').tofile('tokens.bin')\""},
    {"\x89HDF"sv, 0, "an HDF5 file", "its texts or tokens in files of their own"},
    {"SQLite format 3\0"sv, 0, "an SQLite data base", "its texts in a file of text"},
    {"MMIDIDX\0"sv, 0, "Megatron's index of documents", "the .bin beside it"},
    {"GGUF"sv, 0, "a model's weights", "the data to train on"},
    {"\x7f"
     "ELF"sv,
     0, "a program", "the data to train on"},
    {"\x89PNG"sv, 0, "a picture", "text"},
};

bool HasForm(const Form& form, std::string_view head) {
  return head.size() > form.offset && head.substr(form.offset).starts_with(form.magic);
}

absl::Status NamedForm(const std::string& path, const char* name, const char* wanted) {
  return InvalidArgument("data: ", path, ": got ", name, ", wanted ",
                         absl::StrReplaceAll(wanted, {{"FILE", path}}));
}

// The first number of a file of llm.c, or 0.
int32_t LlmcMagic(std::string_view head) {
  constexpr int32_t kYear = 20'240'000;  // all of them are dates
  int32_t magic = 0;
  if (head.size() < 256 * sizeof(magic)) return 0;
  std::memcpy(&magic, head.data(), sizeof(magic));
  return magic > kYear && magic < kYear + 10'000 ? magic : 0;
}

// A control character that text does not have. ESC begins the colours in logs of terminals.
bool IsControl(char c) {
  return static_cast<unsigned char>(c) < 0x20 && (c < '\b' || c > '\r') && c != '\x1b';
}

// Whether no more of the bytes than a hundredth are controls.
bool HasFewControls(std::string_view bytes) {
  return std::ranges::count_if(bytes, IsControl) * 100 <= static_cast<int64_t>(bytes.size());
}

}  // namespace

absl::Status CheckText(const std::string& path, std::string_view content) {
  const std::string_view head = content.substr(0, kFormHeadBytes);
  for (const Form& form : kForms) {
    if (HasForm(form, head)) return NamedForm(path, form.name, form.wanted);
  }
  if (head.starts_with("\xff\xfe") || head.starts_with("\xfe\xff"))
    return NamedForm(path, "text in UTF-16", "UTF-8: iconv -f UTF-16 -t UTF-8 FILE > text.txt");
  static constexpr char kTokens[] =
      "--set data.kind=tokens and the model.vocabulary of its tokenizer";
  if (LlmcMagic(head) != 0) return NamedForm(path, "a file of llm.c", kTokens);
  const size_t zero = content.find('\0');
  if (zero == content.npos && HasFewControls(head)) return absl::OkStatus();
  return InvalidArgument("data: ", path, ": got bytes that are no text",
                         zero == content.npos ? "" : absl::StrCat(" (byte ", zero, " is 0)"),
                         ", wanted text; ", absl::EndsWith(path, ".bin") ? kTokens : "",
                         absl::EndsWith(path, ".bin") ? " for a file of tokens, " : "",
                         "a pattern such as '*.txt' for the texts of a folder, or "
                         "--set data.kind=bytes to train on bytes of any meaning");
}

absl::Status CheckTokens(const std::string& path, std::string_view head, uint32_t width) {
  const int32_t magic = LlmcMagic(head);
  if (magic == kLlmcShard || magic == kLlmcLlama3Shard) return absl::OkStatus();
  static constexpr char kShards[] = "shards of tokens";
  if (magic == 20240522)
    return NamedForm(path, "an evaluation's questions (llm.c, 20240522)", kShards);
  if (magic != 0)
    return NamedForm(path, absl::StrCat("a file of llm.c (", magic, ")").c_str(), kShards);
  for (const Form& form : kForms) {
    // Fewer bytes may be tokens, unless the name says so, too.
    const bool is_sure = form.magic.size() >= 4 || absl::EndsWith(path, ".gz");
    if (is_sure && HasForm(form, head)) return NamedForm(path, form.name, form.wanted);
  }
  for (const char* ending : {".pkl", ".pickle", ".pt", ".pth"}) {
    if (absl::EndsWith(path, ending))
      return NamedForm(path, "a pickle of Python", "files of tokens");
  }
  constexpr size_t kSampleBytesMin = 256;
  if (head.size() < kSampleBytesMin) return absl::OkStatus();
  if (std::ranges::none_of(head, IsControl)) {
    return NamedForm(path, "text",
                     "files of tokens: python -m longwave.make_tokens FILE --out FOLDER makes "
                     "them, or --set data.kind=text");
  }
  bool is_wider = true;  // of two tokens the second, the upper half of a wider number, is 0
  for (size_t i = 0; i + 2 * width <= head.size(); i += 2 * width)
    is_wider &= head.substr(i + width, width).find_first_not_of('\0') == head.npos;
  const bool has_some = head.substr(0, kSampleBytesMin).find_first_not_of('\0') != head.npos;
  if (!is_wider || !has_some) return absl::OkStatus();
  const bool is_wide = width == sizeof(uint32_t);
  return InvalidArgument(
      "data: ", path, ": every second token of ", 8 * width, " bits is 0, as in a file of ",
      16 * width, " bits, wanted ",
      is_wide ? "tokens of 32 or 16 bits (data.token_type)" : "--set data.token_type=uint32");
}

}  // namespace longwave
