"""What a trained model makes of texts and samples."""
from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import tempfile
from typing import Any, Mapping, Sequence, Union

from ._program import Config, Names, Overrides, run, words_of
from ._runs import Run


@dataclasses.dataclass(frozen=True)
class Continuation:
    """Of a prompt."""

    prompt: str
    text: str  # without the prompt
    ids: tuple[int, ...]
    ended: str  # "end_of_text" or "length"
    json: Mapping[str, Any] = dataclasses.field(repr=False, compare=False)  # all that `recollect generate --json` says


def generate(model: Union[Config, Run], prompts: Union[str, Sequence[str]], overrides: Overrides | None = None, *,
             max_new_tokens: int | None = None, temperature: float | None = None, top_k: int | None = None,
             top_p: float | None = None, seed: int | None = None, crop: bool = True,
             tokenizer: Union[str, "os.PathLike[str]", None] = None) -> list[Continuation]:
    """Continues texts with a causal model: the folder of one in Hugging Face's form, or the configuration of a training, or
    its Run, whose saved model is taken. Without temperature, top_k and top_p the most probable token follows. `crop`: where
    there is room for no more tokens, the latest ones that the model takes are continued. Raises a RecollectError."""
    options = {"--max-new-tokens": max_new_tokens, "--temperature": temperature, "--top-k": top_k, "--top-p": top_p,
               "--seed": seed, "--tokenizer": tokenizer}
    flags = [f"{name}={os.fspath(value) if isinstance(value, os.PathLike) else value}"
             for name, value in options.items() if value is not None] + ([] if crop else ["--no-crop"])
    texts = [prompts] if isinstance(prompts, str) else list(prompts)
    if not texts:
        return []
    with _words_of_model(model, overrides) as (words, names):
        if any("\n" in text or "\r" in text for text in texts) or len(texts) == 1:
            said = "".join(run(["generate", *words, *flags, f"--prompt={text}", "--json"], names) for text in texts)
        else:
            said = run(["generate", *words, *flags, "--prompts=-", "--json"], names, "".join(f"{text}\n" for text in texts))
    return [_continuation(json.loads(line)) for line in said.splitlines()]


def predict(config: Union[Config, Run], data: Union[str, "os.PathLike[str]", Sequence[Mapping[str, Any]], None] = None,
            overrides: Overrides | None = None) -> list[dict[str, Any]]:
    """What the model that a training has saved says of samples, in order: of a file in the form of `evaluation.format`, or
    of mappings with the columns that the training's data has; `evaluation.path` where there are none. The best model where
    the run has saved one. Raises a RecollectError."""
    overrides = dict(overrides or {})
    with contextlib.ExitStack() as resources:
        if data is not None and not isinstance(data, (str, os.PathLike)):
            if not data:
                return []
            folder = resources.enter_context(tempfile.TemporaryDirectory(prefix="recollect-"))
            path = os.path.join(folder, "samples.jsonl")
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(sample, ensure_ascii=False) + "\n" for sample in data)
            overrides["evaluation.format"] = "jsonl"
            data = path
        words, names = resources.enter_context(words_of(config.config if isinstance(config, Run) else config, overrides))
        file_of_data = [] if data is None else [f"--data={os.fspath(data)}"]
        said = run(["predict", *words, *file_of_data, "--as=jsonl"], names)
    return [json.loads(line) for line in said.splitlines()]


def _words_of_model(model: Union[Config, Run], overrides: Overrides | None,
                    ) -> contextlib.AbstractContextManager[tuple[list[str], Names | None]]:
    if isinstance(model, Run):
        model = model.config
    if isinstance(model, Mapping) or not pathlib.Path(model).is_dir():
        return words_of(model, overrides)
    return words_of(f"--model={os.fspath(model)}", overrides)


def _continuation(said: dict[str, Any]) -> Continuation:
    return Continuation(prompt=said["prompt"], text=said["text"], ids=tuple(said["ids"]), ended=said["ended"], json=said)
