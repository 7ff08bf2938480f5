#!/usr/bin/env python3
"""What compare.py reads of other programs' output, and how it calls them. No GPU and none of these programs is needed.

Always true: lines are as their sources print them (llm.c: train_gpt2.cu; llmq: src/training/logging.cpp).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1] / "bench/gpu"
sys.path.insert(0, str(BENCH))
import peers  # noqa: E402

LLMC = """device memory usage: 21340 MiB / 143771 MiB
val loss 11.009435
step    1/4 | loss 10.999722 (+nanz)| norm 15.4123 (+nanz)| lr 1.00e-04 | 151.25 ms | -100.0% bf16 MFU | 216648 tok/s
step    2/4 | loss 9.912345 (+nanz)| norm 4.2011 (+nanz)| lr 1.00e-04 | 70.50 ms | 46.1% bf16 MFU | 464794 tok/s
step    3/4 | loss 9.612345 (-1.20z)| norm 3.1000 (+0.10z)| lr 1.00e-04 | 70.00 ms | 46.4% bf16 MFU | 466400 tok/s
step    4/4 | loss 9.412345 (-1.10z)| norm 2.9000 (+0.20z)| lr 1.00e-04 | 72.00 ms | 46.2% bf16 MFU | 465900 tok/s
val loss 9.313432
total average iteration time: 70.833333 ms
"""

LLMQ = """[Dataset]
[T] step     0 [  0.0%] | time:  3846 ms | norm  14.356340 | loss  12.121202 | tps  136k | sol 42.6%
[V] step     1 [  0.0%] | time:   165 ms | eval   2.945187 | train  3.295834 | tps  148k
[T] step     1 [ 33.3%] | time:  3493 ms | norm  16.444948 | loss  11.495819 | tps  150k
[T] step     2 [ 66.7%] | time:   101  s | norm  12.627003 | loss  10.924606 | tps  5190 | sol 46.9%
"""

# Prints its steps, and then would go on for long.
PROGRAM = """#!/bin/sh
for word in "$@"; do case "$word" in --train-file=*) test -s "${word#*=}" || exit 3 ;; esac; done
cat <<'END'
%s
END
exec sleep 600
"""


class PeersTest(unittest.TestCase):
    def test_llm_c(self) -> None:
        self.assertEqual(peers.read_llmc(LLMC, 1), (0.0705, 21340 << 20))
        self.assertEqual(peers.read_llmc(LLMC, 3)[0], 0.072)
        with self.assertRaisesRegex(ValueError, "4 steps in what llm.c printed, of which 4 are to warm up"):
            peers.read_llmc(LLMC, 4)

    def test_llmq(self) -> None:
        self.assertEqual(peers.llmq_steps(LLMQ), [3.846, 3.493, 101.0])

    def compare(self, *words: str, recollect: str = "/none") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(BENCH / "compare.py"), f"--recollect={recollect}", *words]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)

    def test_commands_are_listed_for_what_is_given(self) -> None:
        alone = self.compare("--dry-run").stdout
        self.assertNotIn("llm", alone)
        self.assertIn("torch save_on_cpu: ", alone)
        self.assertIn("trainer_step.py --steps=50 --warmup=8 --bf16\n", alone)
        all_of_them = self.compare("--dry-run", "--llmc", "/c", "--llmq", "/q").stdout
        self.assertIn("/c/train_gpt2cu -i FOLDER/train.bin -j FOLDER/train.bin -x 58 ", all_of_them)
        self.assertIn(" -e d48 -b 8 -t 1024 -d 8192 -ge 1\n", all_of_them)
        for size, batch in (("0.5B", 32), ("1.5B", 32), ("3B", 16), ("7B", 4)):
            self.assertRegex(all_of_them, rf"/q/train --model=Qwen2.5-{size} .*--matmul-dtype=bf16 --batch-size={batch} ")
        self.assertEqual(all_of_them.count("--matmul-dtype=e4m3"), 4)
        self.assertIn("training.fp8=true training.micro_batch_size=16 training.gradient_accumulation_steps=32", all_of_them)

    def test_a_peer_is_ended_after_its_steps_and_what_is_not_there_is_said(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "train"
            program.write_text(PROGRAM % LLMQ, encoding="utf-8")
            os.chmod(program, 0o755)
            done = self.compare(
                "--no-torch", f"--llmq={folder}", "--models", "qwen-0.5B", "--rounds=1", "--steps=2", "--warmup=1"
            )
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"\| llmq bf16 \| 52246\.50 \| 10035 \|")
        self.assertIn("Not measured: qwen-0.5B none, bf16, round 1: [Errno 2]", done.stdout)


if __name__ == "__main__":
    unittest.main()
