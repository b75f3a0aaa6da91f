"""The include graph's rules, on a small tree; and on the project's own, that they reach what they must."""

import unittest

from affected import EVERYTHING, affected, texts_of_tree, tracked

TREE = {
    "common/base/text.h": "",
    "common/base/text.cc": '#include "common/base/text.h"\n',
    "common/link/link.h": '#include "common/base/text.h"\n',
    "common/link/link.cc": '#include "common/link/link.h"\n#include <string>\n',
    "server/service/shard.cc": '#include "common/link/link.h"\n',
    "worker/sync/pipeline.cc": '#include "worker/sync/pipeline.h"\n',
    "worker/sync/pipeline.h": "",
    "common/rpc/call.cc": '#include "longwave/v1/shard.pb.h"\n',
    "kernels/cuda/dct.cu": '#include "dct.cuh"\n',
    "kernels/cuda/dct.cuh": "",
}


class Affected(unittest.TestCase):
    def test_a_header_reaches_all_that_include_it(self):
        self.assertEqual(affected(["common/base/text.h"], TREE),
                         {"common/base/text.h", "common/base/text.cc", "common/link/link.h", "common/link/link.cc",
                          "server/service/shard.cc"})

    def test_a_source_reaches_what_includes_its_header(self):
        self.assertEqual(affected(["common/link/link.cc"], TREE),
                         {"common/link/link.cc", "common/link/link.h", "server/service/shard.cc"})

    def test_a_source_without_a_header_reaches_itself_alone(self):
        self.assertEqual(affected(["server/service/shard.cc"], TREE), {"server/service/shard.cc"})

    def test_a_path_may_be_from_the_files_own_folder(self):
        self.assertIn("kernels/cuda/dct.cu", affected(["kernels/cuda/dct.cuh"], TREE))

    def test_a_folders_build_file_reaches_the_folder_and_what_includes_it(self):
        self.assertEqual(affected(["worker/sync/CMakeLists.txt"], TREE),
                         {"worker/sync/CMakeLists.txt", "worker/sync/pipeline.cc", "worker/sync/pipeline.h"})

    def test_the_protocol_reaches_what_includes_generated_headers(self):
        self.assertIn("common/rpc/call.cc", affected(["proto/longwave/v1/shard.proto"], TREE))

    def test_a_header_that_is_gone_reaches_what_still_includes_it(self):
        tree = {name: text for name, text in TREE.items() if name != "common/link/link.h"}
        self.assertEqual(affected(["common/link/link.h"], tree),
                         {"common/link/link.h", "common/link/link.cc", "server/service/shard.cc"})

    def test_what_every_build_reads_reaches_everything(self):
        for name in ("CMakePresets.json", "cmake/LongwaveLibrary.cmake", "tools/setup.sh"):
            self.assertIsNone(affected([name], TREE))

    def test_a_page_reaches_itself_alone(self):
        self.assertEqual(affected(["docs/how-to/replay.md"], TREE), {"docs/how-to/replay.md"})

    def test_of_this_tree_the_ground_reaches_all_floors_and_the_top_itself(self):
        texts = texts_of_tree()
        reached = affected(["common/base/errors.h"], texts)
        for floor in ("common/link/", "server/coordinator/", "worker/core/", "cli/", "tests/sim/"):
            self.assertTrue(any(name.startswith(floor) for name in reached), floor)
        self.assertFalse(any(name.startswith("server/") for name in affected(["cli/up.cc"], texts)))

    def test_what_every_build_reads_is_there(self):
        names = tracked()
        for name in EVERYTHING:
            self.assertTrue(any(other == name or other.startswith(name) for other in names), name)


if __name__ == "__main__":
    unittest.main()
