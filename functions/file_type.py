"""What a file is, by its content: Google's Magika, a small neural network that ships inside its wheel.

Register it with ``lancegpu functions register functions/file_type.py``; Magika is installed for its workers alone. Its model knows some 200 types of content and takes about 5 ms a file on one core.
"""

from __future__ import annotations

import os
from typing import Annotated, NamedTuple

import pyarrow as pa

from lancegpu_sql import function


class FileType(NamedTuple):
    """What Magika says of one file."""

    label: str
    kind: str
    mime_type: str
    score: Annotated[float, pa.float32()]


@function(name="file_type", gpu=True, pip=("magika==1.*",))
class FileTypeOf:
    """Tell the type of a file's content.

    Takes a file's bytes, or its first and last 4 KiB one after the other: the model looks at no more. Gives a struct of `label` (such as
    ``python``), `kind` (such as ``code``), `mime_type` and `score` (0 to 1: how sure the model is); bound without a
    column's name, these become four columns, filled together. A null gives a null.

    Runs on workers of the GPU class ``default``. The wheel's model computes on a worker's cores, whatever its class:
    what the class gives is the worker, and its turn.
    """

    def __init__(self) -> None:
        import onnxruntime
        from magika import Magika

        # Left alone, onnxruntime takes every core of the machine, and Magika has no option for that.
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
        options.inter_op_num_threads = 1

        class WithinItsCores(Magika):
            def _init_onnx_session(self) -> onnxruntime.InferenceSession:
                onnxruntime.disable_telemetry_events()
                return onnxruntime.InferenceSession(self._model_path, options, providers=["CPUExecutionProvider"])

        self.magika = WithinItsCores()

    def __call__(self, content: bytes) -> FileType:
        result = self.magika.identify_bytes(content)
        return FileType(str(result.output.label), result.output.group, result.output.mime_type, float(result.score))
