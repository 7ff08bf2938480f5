"""Makes tiny.safetensors with the reference implementation (safetensors 0.8.0, torch 2.15.0, numpy 2.4.6).

Run in this folder: python3 make_safetensors.py
The values are exact in every dtype, so that readers can compare with ==.
"""

import torch
from safetensors.torch import save_file

exact = [[0.0, -1.5], [0.15625, 3.0], [1024.0, -0.0078125]]
tensors = {
    "f64": torch.tensor(exact, dtype=torch.float64),
    "f32": torch.tensor(exact, dtype=torch.float32),
    "bf16": torch.tensor(exact, dtype=torch.bfloat16),
    "f16": torch.tensor(exact, dtype=torch.float16),
    "special": torch.tensor([float("inf"), -float("inf"), float("nan"), 2.0**-24, -0.0], dtype=torch.float16),
    "scalar": torch.tensor(2.5),
    "i64": torch.tensor([7, -(2**40)]),
    "bool": torch.tensor([True, False, True]),
}
save_file(tensors, "tiny.safetensors", metadata={"format": "pt"})
