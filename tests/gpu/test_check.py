#!/usr/bin/env python3
"""check.sh and the benchmark of a bundle, on a bundle whose programs are stand-ins that need no GPU.

Always true: nothing outside a temporary folder is written, and PyTorch is absent whatever is installed here.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]

# Does at once what check.sh and compare.py read. Losses follow from the step alone; of a tensor rank's, where a test says
# so, from the switches too.
RECOLLECT = r"""#!/usr/bin/env python3
import json, os, sys
words = sys.argv[1:]
while words[0] in ("run", "--standalone", "--nproc-per-node", "2"):
    words = words[1:]
keys = dict(word.split("=", 1) for word in words if "=" in word)
option = dict(zip(words, words[1:]))
if words[0] == "doctor":
    print(json.dumps({"checks": [{"group": "GPU", "name": "cudnn", "found": "9.19.0 at a stand-in"}]}))
elif words[0] == "--version":
    print("recollect 0, a stand-in")
elif words[0] == "train":
    output, steps = keys["output_dir"], int(keys.get("training.max_steps", 10))
    wrong = os.environ.get("STAND_IN_WRONG", "-")
    os.makedirs(output, exist_ok=True)
    with open(f"{output}/metrics.jsonl", "w") as lines:
        for step in range(1, steps + 1):
            loss = 2.5 - 0.1 * step + (0.001 if any(wrong in word for word in words) else 0)
            lines.write(json.dumps({"loss": loss, "grad_norm": 1.5, "step_seconds": 0.25}) + "\n")
            if "evaluation.every_steps" in keys:
                lines.write('{"eval_loss": 3.5}\n')
    with open(f"{output}/memory.rank0.json", "w") as report:
        arena = {"arena": 1073741824}
        times = {"predicted": {"step": 0.2, "exposed": 0}, "measured": {"step": 0.25, "exposed": 0.001}}
        json.dump({"measured": arena, "predicted": arena, "step": times}, report)
elif words[0] == "generate":
    print('{"ids": [1, 2]}')
elif words[0] == "predict":
    open(option["--output"], "w").write("{}\n" * 48)
elif words[0] == "calibrate":
    open(option["--out"], "w").write("name: measured\n")
elif words[0] == "profile":
    print("contraction, attention, between ops")
    open(option["--html"], "w").write("x" * 60000)
"""

# Passes after a moment. One line of check.sh never ends, where a test wants that, and neither does what it has started.
TEST_GPU = r"""#!/bin/bash
echo "$XDG_CACHE_HOME" >>"$CHECK_TEST_FOLDER/caches"
if [[ "$*" == *"$STAND_IN_HANGS"* ]]; then
  trap '' TERM
  echo "the device does not answer"
  sleep 3600 & echo $! >"$CHECK_TEST_FOLDER/left"
  while true; do sleep 3600; done
fi
sleep 0.6
echo '[  PASSED  ] 3 tests.'
"""

NVIDIA_SMI = "#!/bin/sh\necho 'A stand-in, 580.1, 143771, 1980'\n"


class Bundle:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("bin", "path", "share/bench", "without"):
            (folder / name).mkdir(parents=True)
        (folder / "without/torch.py").write_text("raise ImportError('no torch in this test')\n", encoding="utf-8")
        shutil.copy(SOURCE / "tests/gpu/check.sh", folder)
        for name in ("check.py", "lines.py", "tiny.yaml"):
            shutil.copy(SOURCE / "tests/gpu" / name, folder / "share")
        for name in ("compare.py", "peers.py", "torch_step.py"):
            shutil.copy(SOURCE / "tests/bench/gpu" / name, folder / "share/bench")
        self.write("bin/recollect", RECOLLECT)
        self.write("bin/test_gpu", TEST_GPU)
        self.write("path/nvidia-smi", NVIDIA_SMI)
        self.write("path/compute-sanitizer", '#!/bin/sh\nwhile [ "${1#--}" != "$1" ]; do shift 2; done\nexec "$@"\n')

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")
        (self.folder / name).chmod(0o755)

    def environment(self, **more: str) -> dict[str, str]:
        path = f"{self.folder / 'path'}:{os.environ['PATH']}"
        own = {"PATH": path, "PYTHONPATH": str(self.folder / "without"), "CHECK_TEST_FOLDER": str(self.folder)}
        return {**os.environ, **own, "STAND_IN_HANGS": "nothing", **more}

    def run(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, capture_output=True, text=True, env=self.environment(**more), timeout=120, check=False,
            cwd=self.folder,
        )  # fmt: skip

    def check(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return self.run(str(self.folder / "check.sh"), "--cores", "16", *words, **more)

    def left(self) -> int:
        """The process that the line which hangs has started, once it has."""
        text = ""
        for _ in range(600):
            with contextlib.suppress(FileNotFoundError):
                text = (self.folder / "left").read_text(encoding="utf-8")
            if text.endswith("\n"):
                return int(text)
            time.sleep(0.05)
        raise AssertionError("the line has not begun")


class CheckTest(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory(prefix="recollect-check-")
        self.addCleanup(holder.cleanup)
        self.bundle = Bundle(Path(holder.name))

    def compare(self, *words: str) -> subprocess.CompletedProcess[str]:
        script = str(self.bundle.folder / "share/bench/compare.py")
        program = str(self.bundle.folder / "bin/recollect")
        return self.bundle.run(sys.executable, script, "--recollect", program, "--rounds=1", "--steps=2", *words)

    def test_the_benchmark_measures_us_without_pytorch(self) -> None:
        done = self.compare()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("Without PyTorch: ImportError: no torch in this test", done.stdout)
        self.assertEqual(done.stdout.count("| none | 250.00 |"), 2, done.stdout)
        self.assertNotIn("torch eager", done.stdout)

    def test_the_benchmark_says_what_it_could_not_measure(self) -> None:
        self.bundle.write("bin/recollect", "#!/bin/sh\necho 'no device today' >&2\nexit 4\n")
        done = self.compare("--models", "124M")
        self.assertEqual(done.returncode, 1)
        self.assertIn("Not measured: 124M none, round 1: no device today", done.stdout)

    def test_all_lines_pass_side_by_side_and_both_tables_are_kept(self) -> None:
        done = self.bundle.check("--json", "both.json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("A stand-in, driver 580.1", done.stdout)
        self.assertIn("cudnn: 9.19.0 at a stand-in", done.stdout)
        self.assertRegex(done.stdout, r"124M none +250\.00 +131072 +200\.00 +1\.25 +1\.00 +1\.00\n")
        self.assertRegex(done.stdout, r"124M torch compile +.*no torch in this test")
        report = json.loads((self.bundle.folder / "both.json").read_text(encoding="utf-8"))
        checks = report["checks"]
        self.assertEqual({check["verdict"] for check in checks}, {"ok"})
        self.assertEqual(len(checks), 28)
        self.assertEqual(len(report["speed"]), 15)
        self.assertEqual(report["machine"]["memory_gib"], 140.4)
        tests = [check["seconds"] for check in checks if check["seconds"] > 0.6]
        self.assertGreater(len(tests), 9, "each waits")
        caches = (self.bundle.folder / "caches").read_text(encoding="utf-8").splitlines()
        self.assertEqual(len(caches), len(set(caches)), "a cache folder each")

    def test_a_line_that_hangs_is_ended_and_the_others_run(self) -> None:
        done = self.bundle.check("--no-bench", "--limit", "5", "--only", "memory|ops|eval", STAND_IN_HANGS="MemoryOnGpu")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        failed = [row for row in done.stdout.splitlines() if " FAILED " in row]
        self.assertEqual(len(failed), 1, done.stdout)
        self.assertTrue(failed[0].startswith("memory against the driver"), failed)
        self.assertIn("the device does not answer", done.stdout)
        self.assertIn("(ended; its limit is 5 s)", done.stdout)
        self.assertEqual(done.stdout.count(" ok "), 4, done.stdout)
        self.assertTrue(ends(self.bundle.left()), "what a line has started ends with it")

    def test_losses_that_differ_fail(self) -> None:
        done = self.bundle.check("--no-bench", "--only", "ZeRO|Llama", STAND_IN_WRONG="zero_stage=2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("zero_stage 2 differs: ", done.stdout)
        self.assertRegex(done.stdout, r"Llama +ok ")

    def test_what_the_time_does_not_reach_is_a_failure(self) -> None:
        done = self.bundle.check("--seconds", "0", "--only", "Llama|124M none$")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"Llama +not reached")
        self.assertRegex(done.stdout, r"124M none +not reached")

    def test_lines_share_the_device_memory(self) -> None:
        self.bundle.write("path/nvidia-smi", NVIDIA_SMI.replace("143771", "15000"))  # ten GiB for lines of eight
        start = time.monotonic()
        done = self.bundle.check("--no-bench", "--only", "reference, bf16|reference, fp16")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreater(time.monotonic() - start, 1.2, "one after the other")

    def test_who_ends_it_ends_what_it_runs(self) -> None:
        check = [str(self.bundle.folder / "check.sh"), "--cores", "16", "--no-bench", "--only", "memory"]
        environment = self.bundle.environment(STAND_IN_HANGS="MemoryOnGpu")
        with subprocess.Popen(check, env=environment, stdout=subprocess.DEVNULL, cwd=self.bundle.folder) as running:
            left = self.bundle.left()
            running.terminate()
            self.assertEqual(running.wait(timeout=30), 130)
        self.assertTrue(ends(left))


def ends(process: int) -> bool:
    """Whether a process is gone within half a minute; one that nobody has waited for counts as gone."""
    for _ in range(600):  # other programs may be busy
        try:
            state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


if __name__ == "__main__":
    unittest.main()
