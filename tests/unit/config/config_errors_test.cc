#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/config/config.h"

namespace longwave {
namespace {

// A bad input and its whole error message.
struct Case {
  std::string name;
  std::string text;
  Overrides overrides;
  std::string sentence;
};

void PrintTo(const Case& bad, std::ostream* out) { *out << bad.name; }

class BadConfig : public testing::TestWithParam<Case> {};

TEST_P(BadConfig, EndsInOneSentence) {
  const absl::Status status =
      ParseConfig(GetParam().text, "configs/x.yaml", GetParam().overrides).status();
  EXPECT_EQ(status, absl::InvalidArgumentError(GetParam().sentence));
}

std::string NameOf(const testing::TestParamInfo<Case>& info) { return info.param.name; }

// clang-format off
INSTANTIATE_TEST_SUITE_P(Keys, BadConfig, testing::Values(
    Case{"Unknown", "run:\n  steps: 5\nsync:\n  kk: 3\n", {},
         "configs/x.yaml:4: unknown key sync.kk; did you mean sync.up.k?"},
    Case{"UnknownInTheWrongSection", "train: {steps: 5}", {},
         "configs/x.yaml:1: unknown key train.steps; did you mean run.steps?"},
    Case{"UnknownWithATypo", "train: {learning_rat: 5}", {},
         "configs/x.yaml:1: unknown key train.learning_rat; did you mean train.learning_rate?"},
    Case{"UnknownSection", "\nsynch: {beta: 0}", {},
         "configs/x.yaml:2: unknown key synch; did you mean sync?"},
    Case{"UnknownLikeNothing", "frobnicate: 1", {}, "configs/x.yaml:1: unknown key frobnicate"},
    Case{"UnknownOfOneLetter", "x: 1", {}, "configs/x.yaml:1: unknown key x"},
    Case{"BelowAKey", "run:\n  steps:\n    many: 5\n", {},
         "configs/x.yaml:2: run.steps: got a section, wanted a whole number from 1 to 1000000000"},
    Case{"Twice", "sync:\n  beta: 0.5\n  rho: 1\n  beta: 0.6\n", {},
         "configs/x.yaml:4: sync.beta: given twice, first on line 2"},
    Case{"TwiceByDots", "sync:\n  beta: 0.5\nsync.beta: 0.6\n", {},
         "configs/x.yaml:3: sync.beta: given twice, first on line 2"},
    Case{"SectionTwice", "sync:\n  beta: 0.5\nsync:\n  rho: 0.6\n", {},
         "configs/x.yaml:3: sync: given twice, first on line 1"}), NameOf);

INSTANTIATE_TEST_SUITE_P(Values, BadConfig, testing::Values(
    Case{"NumberTooLarge", "sync:\n  beta: 1.5", {},
         "configs/x.yaml:2: sync.beta: got 1.5, wanted a number from 0 to 0.9999"},
    Case{"NumberNegative", "sync: {eta: -1}", {},
         "configs/x.yaml:1: sync.eta: got -1, wanted a number from 0 to 100"},
    Case{"NumberIsNot", "sync: {eta: .nan}", {},
         "configs/x.yaml:1: sync.eta: got .nan, wanted a number from 0 to 100"},
    Case{"NumberByName", "{}", {"sync.eta=nan"},
         "--set sync.eta=nan: sync.eta: got nan, wanted a number from 0 to 100"},
    Case{"NumberInfinite", "sync: {eta: 1e999}", {},
         "configs/x.yaml:1: sync.eta: got 1e999, wanted a number from 0 to 100"},
    Case{"WholeWithFraction", "run: {steps: 1.5}", {},
         "configs/x.yaml:1: run.steps: got 1.5, wanted a whole number from 1 to 1000000000"},
    Case{"WholeWithExponentAndFraction", "run: {steps: 15e-1}", {},
         "configs/x.yaml:1: run.steps: got 15e-1, wanted a whole number from 1 to 1000000000"},
    Case{"WholeWithTooLargeExponent", "run: {seed: 1e17}", {},
         "configs/x.yaml:1: run.seed: got 1e17, wanted a whole number from 0 to 18446744073709551615"},
    Case{"WholeZero", "run: {steps: 0}", {},
         "configs/x.yaml:1: run.steps: got 0, wanted a whole number from 1 to 1000000000"},
    Case{"WholeNegative", "run: {workers: -4}", {},
         "configs/x.yaml:1: run.workers: got -4, wanted a whole number from 1 to 10000"},
    Case{"WholeTooManyWorkers", "run: {workers: 10001}", {},
         "configs/x.yaml:1: run.workers: got 10001, wanted a whole number from 1 to 10000"},
    Case{"WholeTooManyShards", "run: {shards: 4097}", {},
         "configs/x.yaml:1: run.shards: got 4097, wanted a whole number from 1 to 4096"},
    Case{"WholeBeyondSixtyFourBits", "run: {seed: 18446744073709551616}", {},
         "configs/x.yaml:1: run.seed: got 18446744073709551616, "
         "wanted a whole number from 0 to 18446744073709551615"},
    Case{"WholeInHex", "run: {seed: 0x10}", {},
         "configs/x.yaml:1: run.seed: got 0x10, wanted a whole number from 0 to 18446744073709551615"},
    Case{"DownK", "sync: {down: {k: 4097}}", {},
         "configs/x.yaml:1: sync.down.k: got 4097, wanted a whole number from 1 to 4096"},
    Case{"Choice", "sync: {up: {codec: int3}}", {},
         "configs/x.yaml:1: sync.up.codec: got int3, wanted one of fp32, bf16, int8, int4, int2, sign"},
    Case{"DownSelection", "sync: {down: {selection: random}}", {},
         "configs/x.yaml:1: sync.down.selection: got random, wanted one of all, topk"},
    Case{"ChoiceOfTwo", "model: {kind: rnn}", {}, "configs/x.yaml:1: model.kind: got rnn, wanted one of gpt, external"},
    Case{"RemovedChoice", "model:\n  kind: resnet\n", {},
         "configs/x.yaml:2: model.kind: got resnet, wanted one of gpt, external: "
         "the C++ worker trains GPTs only; train this model with the Python package, docs/how-to/python.md"},
    Case{"RemovedChoiceByOverride", "{}", {"data.kind=images"},
         "--set data.kind=images: data.kind: got images, wanted one of text, bytes, tokens: "
         "the C++ worker trains GPTs only; train this model with the Python package, docs/how-to/python.md"},
    Case{"RemovedKey", "model:\n  kind: gpt\n  patch: 4\n", {},
         "configs/x.yaml:3: model.patch is no key any more: "
         "the C++ worker trains GPTs only; train this model with the Python package, docs/how-to/python.md"},
    Case{"RemovedKeyByOverride", "{}", {"model.file=x.pt"},
         "--set model.file=x.pt: model.file is no key any more: "
         "the C++ worker trains GPTs only; train this model with the Python package, docs/how-to/python.md"},
    Case{"Flag", "sync: {follow_schedule: yes}", {},
         "configs/x.yaml:1: sync.follow_schedule: got yes, wanted true or false"},
    Case{"Preset", "run:\n  preset: adamw\n", {},
         "configs/x.yaml:2: run.preset: got adamw, wanted one of " + absl::StrJoin(PresetNames(), ", ")},
    Case{"PresetOverridden", "run: {preset: ddp}", {"preset=x"},
         "--set preset=x: run.preset: got x, wanted one of " + absl::StrJoin(PresetNames(), ", ")},
    Case{"NameWithASlash", "run: {name: ../up}", {},
         "configs/x.yaml:1: run.name: got ../up, "
         "wanted a folder name of letters, digits, '.', '_' and '-', or \"\""},
    Case{"EmptyPath", "data: {path: ''}", {},
         "configs/x.yaml:1: data.path: got nothing, wanted a path, or compiler-headers"},
    Case{"PathWithAControlCharacter", "data: {path: \"a\\nb\"}", {},
         "configs/x.yaml:1: data.path: got a\\nb, wanted a path, or compiler-headers"},
    Case{"Port", "cluster: {coordinator: 'localhost:70700'}", {},
         "configs/x.yaml:1: cluster.coordinator: got localhost:70700, "
         "wanted host:port with a port from 0 to 65535"},
    Case{"NoPort", "cluster: {coordinator: localhost}", {},
         "configs/x.yaml:1: cluster.coordinator: got localhost, "
         "wanted host:port with a port from 0 to 65535"},
    Case{"Nothing", "run:\n  steps:\n", {},
         "configs/x.yaml:2: run.steps: got nothing, wanted a whole number from 1 to 1000000000"},
    Case{"List", "run: {steps: [1, 2]}", {},
         "configs/x.yaml:1: run.steps: got a list, wanted a whole number from 1 to 1000000000"},
    Case{"ValueForASection", "sync: 3", {}, "configs/x.yaml:1: sync: got 3, wanted a section of keys"},
    Case{"NothingForASection", "run:\nsync: {}", {},
         "configs/x.yaml:1: run: got nothing, wanted a section of keys"}), NameOf);

INSTANTIATE_TEST_SUITE_P(Overrides, BadConfig, testing::Values(
    Case{"NotANumber", "{}", {"train.batch=abc"},
         "--set train.batch=abc: train.batch: got abc, wanted a whole number from 1 to 65536"},
    Case{"Unknown", "{}", {"sync.kk=3"}, "--set sync.kk=3: unknown key sync.kk; did you mean sync.up.k?"},
    Case{"Section", "{}", {"sync.up=3"}, "--set sync.up=3: sync.up is a section, wanted one of its keys"},
    Case{"NoEquals", "{}", {"train.batch"},
         "--set train.batch: wanted key=value, such as train.batch=8"},
    Case{"NoValue", "{}", {"train.batch="},
         "--set train.batch=: train.batch: got nothing, wanted a whole number from 1 to 65536"},
    Case{"NoKey", "{}", {"=5"}, "--set =5: no key before the =; wanted key=value"},
    Case{"NotUtf8", "{}", {"data.path=\xff"},
         "--set data.path=\\xff: data.path: got \\xff, wanted a path, or compiler-headers"}), NameOf);

INSTANTIATE_TEST_SUITE_P(Contradictions, BadConfig, testing::Values(
    Case{"Heads", "model:\n  heads: 5\n", {},
         "configs/x.yaml:2: model.d_model: got 96, wanted a multiple of model.heads (5)"},
    Case{"VocabularyOfBytes", "model: {vocabulary: 200}", {},
         "configs/x.yaml:1: model.vocabulary: got 200, wanted at least 256 with data.kind text, whose tokens are bytes"},
    Case{"CheckpointsOfTheWorkersOwn", "model: {kind: external}\ntrain: {activation_checkpoints: true}", {},
         "configs/x.yaml:2: train.activation_checkpoints: got true with model.kind external, wanted gpt"},
    Case{"TokensOfHeaders", "data: {kind: tokens}", {},
         "configs/x.yaml:1: data.path: got compiler-headers, which are text, wanted a path with data.kind tokens"},
    Case{"Warmup", "run: {steps: 50}", {},
         "configs/x.yaml:1: train.warmup_steps: got 50, wanted fewer than run.steps (50)"},
    Case{"WarmupByOverride", "run: {steps: 500}", {"run.steps=10"},
         "--set run.steps=10: train.warmup_steps: got 50, wanted fewer than run.steps (10)"},
    Case{"InnerStepsOfAGradient", "run: {preset: ddp}\nsync:\n  inner_steps: 15\n", {},
         "configs/x.yaml:3: sync.inner_steps: got 15, wanted 1 with sync.signal gradient"},
    Case{"FittedStepsOfAGradient", "run: {preset: ddp}\nsync:\n  inner_steps: auto\n", {},
         "configs/x.yaml:3: sync.inner_steps: got auto, wanted 1 with sync.signal gradient"},
    Case{"NoNumberOfSteps", "sync: {inner_steps: often}", {},
         "configs/x.yaml:1: sync.inner_steps: got often, wanted a whole number from 1 to 1000000, or auto"},
    Case{"NoStepsAtAll", "sync: {inner_steps: 0}", {},
         "configs/x.yaml:1: sync.inner_steps: got 0, wanted a whole number from 1 to 1000000, or auto"},
    Case{"BoundsInTheWrongOrder", "sync:\n  inner_steps: auto\n  inner_steps_min: 101\n", {},
         "configs/x.yaml:3: sync.inner_steps_min: got 101, wanted at most sync.inner_steps_max (100)"},
    Case{"BoundBeyondTheRun", "run: {steps: 60}\nsync: {inner_steps: auto, inner_steps_min: 61}", {},
         "configs/x.yaml:2: sync.inner_steps_min: got 61, wanted at most run.steps (60)"},
    Case{"FragmentsBeyondTheLeastSteps", "sync: {inner_steps: auto}", {"sync.fragments=3"},
         "--set sync.fragments=3: sync.fragments: got 3, wanted at most sync.inner_steps_min (2)"},
    Case{"OverlapBeyondTheLeastSteps", "sync: {inner_steps: auto}", {"sync.overlap=2"},
         "--set sync.overlap=2: sync.overlap: got 2, wanted fewer than the 2 steps between two syncs "
         "(sync.inner_steps_min over sync.fragments)"},
    Case{"InnerOfAPseudoGradient", "sync: {update: inner}", {},
         "configs/x.yaml:1: sync.update: inner takes a gradient, got sync.signal pseudo-gradient"},
    Case{"AMembersStartOfInner",
         "{run: {start: member}, sync: {update: inner, signal: gradient, inner_steps: 1}}", {},
         "configs/x.yaml:1: run.start: member lets workers fetch the run's state, got sync.update "
         "inner, with which a replica is more than the merged updates; wanted run.start seed, and "
         "the same first weights at all workers"},
    Case{"LocalOfAGradient", "sync: {update: local, signal: gradient, inner_steps: 1}", {},
         "configs/x.yaml:1: sync.update: local takes a pseudo-gradient, got sync.signal gradient"},
    Case{"LocalOfEverything", "run: {preset: decoupled}\nsync: {up: {selection: all}}", {},
         "configs/x.yaml:2: sync.update: local applies what a selection leaves behind, "
         "got sync.up.selection all"},
    Case{"ScheduleOfInner", "run: {preset: ddp}\nsync: {follow_schedule: true}", {},
         "configs/x.yaml:2: sync.follow_schedule: got true, wanted false with sync.update inner, "
         "whose optimizer follows the schedule already"},
    Case{"DecayOfInner", "run: {preset: ddp}\nsync: {weight_decay: 0.5}", {},
         "configs/x.yaml:2: sync.weight_decay: got 0.5, wanted 0 with sync.update inner, "
         "which has train.weight_decay"},
    Case{"WeightOfAContribution", "model: {context: 65536}\ntrain: {batch: 65536}\nsync: {inner_steps: 2}\n", {},
         "configs/x.yaml:3: sync.inner_steps: got 2, with which a contribution is of up to 2 steps of "
         "4294967296 tokens (train.batch times model.context), 8589934592 in all, wanted at most 4294967296"},
    Case{"WeightOfALastRoundWithFragments",
         "run: {steps: 2000}\nmodel: {context: 65536}\ntrain: {batch: 100}\n"
         "sync: {inner_steps: 500}", {"sync.fragments=4"},
         "--set sync.fragments=4: sync.inner_steps: got 500, with which a contribution is of up to 875 "
         "steps of 6553600 tokens (train.batch times model.context), 5734400000 in all, wanted at most "
         "4294967296"},
    Case{"FewerStepsThanARoundHas", "run: {steps: 60}\nsync: {inner_steps: 61}", {},
         "configs/x.yaml:2: sync.inner_steps: got 61, wanted at most run.steps (60): the workers would not sync "
         "before the run's end"},
    Case{"FewerStepsByOverride", "sync: {inner_steps: 61}", {"run.steps=60"},
         "--set run.steps=60: sync.inner_steps: got 61, wanted at most run.steps (60): the workers would not sync "
         "before the run's end"},
    Case{"BlockOfTheModel", "sync: {block: 32}", {},
         "configs/x.yaml:1: sync.block: got 32, wanted 64 without sync.tiling tensor"},
    Case{"Stride", "sync: {up: {selection: stride, k: 48}}", {},
         "configs/x.yaml:1: sync.up.k: got 48, wanted a divisor of 4096 with sync.up.selection stride"},
    Case{"Heartbeat", "cluster: {heartbeat_timeout_s: 1, heartbeat_interval_s: 0.75}", {},
         "configs/x.yaml:1: cluster.heartbeat_timeout_s: got 1, wanted at least two of "
         "cluster.heartbeat_interval_s (0.75)"},
    Case{"WorkersMax", "run: {workers: 5}\ncluster: {workers_max: 4}", {},
         "configs/x.yaml:2: cluster.workers_max: got 4, wanted at least run.workers (5), or 0"},
    Case{"Grace", "cluster: {grace_max_s: 5}", {},
         "configs/x.yaml:1: cluster.grace_max_s: got 5, wanted at least cluster.grace_min_s (10)"}),
    NameOf);

constexpr char kEmpty[] =
    "empty, wanted keys with values, such as run: {steps: 600} (or {} for the defaults)";

INSTANTIATE_TEST_SUITE_P(Text, BadConfig, testing::Values(
    Case{"Empty", "", {}, std::string("configs/x.yaml:1: ") + kEmpty},
    Case{"CommentsOnly", "# a\n# b\n", {}, std::string("configs/x.yaml:1: ") + kEmpty},
    Case{"Scalar", "hello", {},
         "configs/x.yaml:1: got hello, wanted keys with values, such as run: {steps: 600}"},
    Case{"Sequence", "- run\n- sync\n", {},
         "configs/x.yaml:1: got a list, wanted keys with values, such as run: {steps: 600}"},
    Case{"TwoDocuments", "run: {}\n---\nsync: {}\n", {},
         "configs/x.yaml:2: a second document begins, wanted one in a file"},
    Case{"NotYaml", "run: {steps: 5\nsync: {}\n", {}, "configs/x.yaml:2: not YAML: "
         "end of map flow not found"},
    Case{"Tab", "run:\n\tsteps: 5\n", {},
         "configs/x.yaml:2: not YAML: illegal map value"},
    Case{"NotUtf8", "run: {}\n# caf\xe9\n", {}, "configs/x.yaml:2: not UTF-8 text"},
    Case{"Utf16", std::string("\xff\xfe{\0}\0", 6), {}, "configs/x.yaml:1: not UTF-8 text"},
    Case{"ControlCharacter", "run: {}\n\x04\n", {},
         "configs/x.yaml:2: got the control character \\x04, wanted text"},
    Case{"Nul", std::string("run: {}\0", 8), {},
         "configs/x.yaml:1: got the control character \\x00, wanted text"},
    Case{"Alias", "run: {steps: &n 5, seed: *n}", {},
         "configs/x.yaml:1: got an alias (*name), wanted the value itself"},
    Case{"MergeKey", "run: &a {steps: 5}\nsync:\n  <<: *a\n", {},
         "configs/x.yaml:3: got an alias (*name), wanted the value itself"},
    Case{"Tag", "run: {steps: !!int 5}", {},
         "configs/x.yaml:1: got a tag (tag:yaml.org,2002:int), wanted the value without one"},
    Case{"ListAsKey", "[a, b]: 5", {}, "configs/x.yaml:1: got a list or a section as a key, wanted a name"},
    Case{"NullAsKey", "~: 5", {}, "configs/x.yaml:1: got an empty key, wanted a name"}), NameOf);
// clang-format on

TEST(BadConfigText, BillionLaughsEndAtTheFirstAlias) {
  std::string text = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 30; ++i) {
    const std::string last = "*a" + std::to_string(i - 1), name = "a" + std::to_string(i);
    absl::StrAppend(&text, name, ": &", name, " [", last, ",", last, "]\n");
  }
  EXPECT_FALSE(ParseConfig(text, "x.yaml").ok());
}

TEST(BadConfigText, NestingIsRefusedHoweverDeep) {
  for (const int depth : {9, 1000, 200000}) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += "{a: ";
    EXPECT_FALSE(ParseConfig(text, "x.yaml").ok()) << depth;
    EXPECT_FALSE(ParseConfig(std::string(depth, '['), "x.yaml").ok()) << depth;
  }
  EXPECT_EQ(ParseConfig("a: {a: {a: {a: {a: {a: {a: {a: {}}}}}}}}", "x.yaml").status(),
            absl::InvalidArgumentError("x.yaml:1: sections nested deeper than 8"));
}

TEST(BadConfigText, LongValuesAreCutInTheSentence) {
  const absl::Status status =
      ParseConfig("sync.eta: " + std::string(100000, '7'), "x.yaml").status();
  EXPECT_LT(status.message().size(), 200u);
}

}  // namespace
}  // namespace longwave
