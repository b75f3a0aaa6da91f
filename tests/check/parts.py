"""The parts of a check: what each runs, how long it takes, and which folders' sources it depends on.

Minutes are those of a machine with two cores and no cache. CHECK_BASE is the commit at which the part last passed. A command may
end with status 77 and a reason as its last line: the machine lacks something that the command wants.
"""

import dataclasses

SKIPPED = 77


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    minutes: int
    commands: tuple[str, ...]
    depends_on: tuple[str, ...] = ()  # beginnings of paths; none: it is no part of a change


def one_of(suite, tests):
    """ctest's pattern for tests of real processes, by the names of their classes and methods."""
    return f"-R '^{suite}\\.({'|'.join(tests)})$'"


# Tests allocate more memory than there is and expect the error, not an abort; the clocks' test loads a library before the sanitizer's.
ADDRESS = "export ASAN_OPTIONS=allocator_may_return_null=1:verify_asan_link_order=0 UBSAN_OPTIONS=print_stacktrace=1; "
THREAD = "export TSAN_OPTIONS=allocator_may_return_null=1; "

# Of each family of tests of real processes the one that goes through most of its code.
FAMILIES = (
    "Return.all_workers_are_killed_and_come_back", "Return.a_frozen_worker_stops_nobody_and_ends_equal",
    "Return.a_fifth_worker_joins_a_run_of_four", "Park.a_parked_run_goes_on_to_its_end", "Refused.configuration_that_differs",
    "Disks.a_shards_full_disk_is_waited_for", "Links.data_break_and_flip", "Clocks.jumps_of_hours_and_back",
    "Pages.they_agree_with_the_summary", "Join.a_token_is_all_that_a_machine_needs",
)
PYTHON = " ".join(f"tests/python/{test}" for test in (
    "test_sync.py::TwoWorkers::test_end_with_the_same_better_model", "test_clip.py", "test_odd_loops.py"))

# The programs with the thread sanitizer, and those of their tests in which threads meet without gRPC: the distribution's libraries
# are not instrumented, and every hand-over inside them is reported.
THREAD_TESTS = ("kernels_test", "conformance_test", "shard_test", "coordinator_test", "link_test", "sync_test",
                "worker_ledger_test", "worker_core_test")

EVERY_CHANGE = (
    Part("format and tidy", 1, (
        "tools/check_format.sh", "cd tests/tidy && python3 -B -m unittest -q test_tidy",
        "cd tests/check && python3 -B -m unittest -q test_affected test_check test_counts test_parts")),
    Part("instrumented build", 16, ("cmake --preset asan", "cmake --build --preset asan -j \"$(nproc)\"")),
    Part("optimized build of what depends on it", 4, (
        "cmake --preset dev", "cmake --build --preset dev -j \"$(nproc)\" --target codegen")),
    Part("unit tests under the address and undefined sanitizers", 5, (
        ADDRESS + "tests/run.sh build/asan -LE 'codegen|e2e|slow|image|helm'",)),
    Part("code generation: kernels, conformance, the emulated device in one order, golden", 2, (
        "tests/run.sh build -L codegen -E 'descending_eager|1_1'",)),
    Part("simulated runs", 5, (
        "build/asan/bin/longwave-sim --seeds 1..3000 & plain=$!; build/asan/bin/longwave-sim --seeds 1..500 --fragments; "
        "build/asan/bin/longwave-sim --seeds 1..500 --nodes; build/asan/bin/longwave-sim --seeds 1..500 --auto; "
        "wait \"$plain\"",)),
    Part("real processes, one test a family", 4, (ADDRESS + "tests/run.sh build/asan " + one_of("integration", FAMILIES),)),
    Part("the Python package on the built library", 2, (ADDRESS + f"tests/python/built.sh build/asan {PYTHON}",)),
)

# In the order of what they find for their minutes.
BY_CHANGE = (
    Part("clang-tidy", 3, (
        "cmake --preset dev", "cmake --build --preset dev --target longwave_proto longwave_records_headers",
        "tools/tidy.sh ${CHECK_BASE:-}"),
         ("common/", "server/", "worker/", "kernels/", "cli/", "tests/")),
    # The bounds of memory count what the sanitizer keeps of freed memory, too. hostile_member's do not fit beside
    # the sanitizer's own; make test has it.
    Part("intruder", 3, (
        ADDRESS + "export ASAN_OPTIONS=$ASAN_OPTIONS:quarantine_size_mb=4:thread_local_quarantine_size_kb=64; "
        "tests/run.sh build/asan -R '^intruder$'",),
         ("common/security/", "common/rpc/", "server/security/")),
    Part("thread sanitizer", 14, (
        "cmake --preset tsan",
        f"cmake --build --preset tsan -j \"$(nproc)\" --target {' '.join(THREAD_TESTS)} service_test bench_shard longwave-server",
        THREAD + f"tests/run.sh build/tsan -R '^({'|'.join(THREAD_TESTS)}|bench_shard\\.is_clean_under_the_thread_sanitizer)$'",
        THREAD + "export GTEST_FILTER='DataPlane*'; tests/run.sh build/tsan -R '^service_test$'"),
        ("common/link/", "worker/sync/", "server/service/")),
    Part("CUDA and the emulated device in its other orders", 12, (
        "tools/setup.sh --cuda", "cmake --preset cuda", "cmake --build --preset cuda", "tests/run.sh build-cuda -E conformance_emulated",
        "tests/run.sh build -R '^conformance_emulated'"), ("kernels/", "tests/emulation/", "tests/conformance/")),
    Part("lifecycle", 12, (ADDRESS + "tests/run.sh build/asan -R '^integration\\.(Signals|Terminal|ByHand|Commands|Park)\\.'",),
         ("cli/",)),
    Part("report in a browser", 4, (
        "tools/setup.sh --browser", "cmake --preset dev", "cmake --build --preset dev --target longwave longwave-server longwave-worker",
        "tests/browser/run.sh"), ("cli/report/", "cli/live", "tests/browser/")),
    Part("chart", 10, (
        "tools/helm.sh", "tools/dashboards.sh generate --check", "tests/helm/check_chart.sh", "tests/helm/object_store.sh"),
         ("helm/", "configs/", "tests/helm/", "tests/dashboards/", "tools/dashboards/")),
    Part("whole Python package, and its nodes under torchrun", 25, (
        "cmake --preset dev", "cmake --build --preset dev --target longwave longwave-server longwave-worker",
        "tests/python/run.sh build/bin"),
         ("python/", "worker/abi/", "worker/member/", "tests/python/")),
    Part("release and images", 20, (
        "cmake --preset dev", "cmake --build --preset dev --target longwave longwave-server longwave-worker",
        "tests/run.sh build -R '^(dist|image)\\.'"),
         ("tools/release.sh", "tools/archive.sh", "tools/wheel.sh", "tools/libraries.txt", "helm/images/", "tests/dist/", "tests/image/")),
)

# Fuzzed in turn, each for this long; what is new stays in build/fuzz/new.
FUZZ_SECONDS = 180

ALL_ONLY = (
    Part("make test", 60, ("make test",)),
    Part("all tests under the address and undefined sanitizers", 60, (
        "cmake --build --preset asan -j \"$(nproc)\" --target all codegen",
        ADDRESS + "tests/run.sh build/asan -E '^conformance_emulated\\.(descending_eager|1_1)$'")),
    Part("a hundred thousand simulated runs", 30, (
        "build/bin/longwave-sim --seeds 1..60000 & plain=$!; build/bin/longwave-sim --seeds 1..10000 --fragments; "
        "build/bin/longwave-sim --seeds 1..10000 --nodes; build/bin/longwave-sim --seeds 1..20000 --auto; wait \"$plain\"",)),
    Part("ten minutes of chaos", 12, ("make chaos MINUTES=10",)),
    Part("fuzzing", 35, (
        "cmake --preset fuzz", "cmake --build --preset fuzz",
        "mkdir -p build/fuzz/new; for fuzzer in build/fuzz/tests/*_fuzz; do name=${fuzzer##*/}; mkdir -p build/fuzz/new/$name; "
        f"$fuzzer -max_total_time={FUZZ_SECONDS} -print_final_stats=1 build/fuzz/new/$name tests/fuzz/corpus/$name; done")),
    Part("release on Kubernetes", 40, ("LONGWAVE_OPERATORS=1 tests/kube/run.sh",)),
)
