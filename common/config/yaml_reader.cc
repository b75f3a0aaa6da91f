#include "common/config/yaml_reader.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/utf8.h"

namespace longwave {
namespace {

using Kind = YamlEntry::Kind;

constexpr size_t kDepthMax = 8;

absl::Status Error(const std::string& file_name, int line, const auto&... sentence) {
  return InvalidArgument(file_name, ":", line, ": ", sentence...);
}

int LineAt(std::string_view text, size_t offset) {
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + offset, '\n'));
}

// Thrown by the handler below to end the parse at the first error; caught in this file.
struct Refused {
  int line;
  std::string sentence;
};

// Flattens yaml-cpp's events. Its node tree would expand aliases; its events do not.
class Flattener : public YAML::EventHandler {
 public:
  static constexpr const char* kEmpty =
      "empty, wanted keys with values, such as run: {steps: 600} (or {} for the defaults)";

  std::vector<YamlEntry> TakeEntries() { return std::move(entries_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) Refuse(mark, "a second document begins, wanted one in a file");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { Leaf(mark, Kind::kNothing, ""); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    Refuse(mark, "got an alias (*name), wanted the value itself");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    RefuseTag(mark, tag);
    if (list_depth_ == 0 && !path_.empty() && !path_.back().in_value) {
      Key(mark, value);
    } else {
      Leaf(mark, Kind::kScalar, value);
    }
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    RefuseTag(mark, tag);
    if (list_depth_ == 0) Leaf(mark, Kind::kList, "");
    ++list_depth_;
  }
  void OnSequenceEnd() override { --list_depth_; }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    RefuseTag(mark, tag);
    if (list_depth_ > 0) {  // the content of lists is left out
      ++list_depth_;
      return;
    }
    std::string name;
    if (!path_.empty()) {
      if (path_.size() == kDepthMax) Refuse(mark, "sections nested deeper than ", kDepthMax);
      Leaf(mark, Kind::kSection, "");
      name = entries_.back().key;
    }
    path_.push_back({std::move(name), false, "", 0});
  }
  void OnMapEnd() override {
    if (list_depth_ > 0) {
      --list_depth_;
    } else {
      path_.pop_back();
    }
  }

 private:
  struct Section {
    std::string name;  // dotted; empty at the top
    bool in_value;     // a key was read: the next event is its value
    std::string key;   // dotted
    int key_line;
  };

  [[noreturn]] static void Refuse(const YAML::Mark& mark, const auto&... sentence) {
    throw Refused{mark.line + 1, absl::StrCat(sentence...)};
  }

  // yaml-cpp gives plain and quoted scalars without a tag "?" and "!".
  static void RefuseTag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    Refuse(mark, "got a tag (", Quotable(tag), "), wanted the value without one");
  }

  void Key(const YAML::Mark& mark, const std::string& name) {
    if (name.empty()) Refuse(mark, "got an empty key, wanted a name");
    Section& section = path_.back();
    section.key = section.name.empty() ? name : absl::StrCat(section.name, ".", name);
    section.in_value = true;
    section.key_line = mark.line + 1;
    const auto [first, is_new] = lines_.emplace(section.key, section.key_line);
    if (!is_new)
      Refuse(mark, Quotable(section.key), ": given twice, first on line ", first->second);
  }

  void Leaf(const YAML::Mark& mark, Kind kind, const std::string& value) {
    if (list_depth_ > 0) return;
    if (path_.empty()) {
      if (kind == Kind::kNothing) Refuse(mark, kEmpty);
      Refuse(mark, "got ", kind == Kind::kList ? "a list" : Quotable(value),
             ", wanted keys with values, such as run: {steps: 600}");
    }
    Section& section = path_.back();
    if (!section.in_value) {
      Refuse(mark, kind == Kind::kNothing ? "got an empty key, wanted a name"
                                          : "got a list or a section as a key, wanted a name");
    }
    section.in_value = false;
    entries_.push_back({kind, section.key, value, section.key_line});
  }

  std::vector<YamlEntry> entries_;
  std::vector<Section> path_;
  std::map<std::string, int> lines_;  // of each key's first occurrence
  int list_depth_ = 0;
  int documents_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<YamlEntry>> ReadYaml(std::string_view text, std::string_view file) {
  const std::string file_name(file);
  if (text.size() > kConfigBytesMax) {
    return InvalidArgument(file_name, ": larger than ", kConfigBytesMax,
                           " bytes, wanted a configuration");
  }
  if (const size_t at = FindInvalidUtf8(text); at != std::string_view::npos) {
    return Error(file_name, LineAt(text, at), "not UTF-8 text");
  }
  // yaml-cpp uses some control characters as its own marks (U+0004 for the end).
  if (const size_t at = FindControlCharacter(text, "\t\n\r"); at != std::string_view::npos) {
    return Error(file_name, LineAt(text, at), "got the control character ",
                 Quotable(text.substr(at, Utf8Length(text.substr(at)))), ", wanted text");
  }
  Flattener flattener;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(flattener)) return Error(file_name, 1, Flattener::kEmpty);
    while (parser.HandleNextDocument(flattener)) {
    }
  } catch (const Refused& refused) {
    return Error(file_name, refused.line, refused.sentence);
  } catch (const YAML::Exception& exception) {
    const int line = exception.mark.is_null() ? 1 : exception.mark.line + 1;
    return Error(file_name, line, "not YAML: ", Quotable(exception.msg));
  } catch (const std::exception& exception) {
    return Error(file_name, 1, "not YAML: ", Quotable(exception.what()));
  }
  return flattener.TakeEntries();
}

}  // namespace longwave
