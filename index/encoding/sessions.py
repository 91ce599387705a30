"""Sessions that run a converted model: from token ids and mask to unit vectors. One function per runtime.

Shapes: B texts of T tokens. A session may be called from several threads unless its docstring excludes it.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from index.records import Floats

INPUTS = ("input_ids", "attention_mask")
OUTPUT = "vector"
OPENVINO_REPORTS = "openvino_telemetry"
"""The package by which OpenVINO sends usage reports. OpenVINO has a substitute that sends nothing."""
KEPT_KERNELS = 32
"""Kernels that OpenVINO keeps. It makes some for each new shape (B, T) of texts, in 5 to 15 ms. By default it keeps
5,000 of them, and its memory grows by .7 to 1.7 MiB with each shape (docs/experiments.md)."""
ONEDNN_KEPT = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
"""How many of them oneDNN, the library below OpenVINO, keeps besides: by default 1,024, and so those of every shape."""

Tokens = NDArray[np.int64]
Session = Callable[[Tokens, Tokens], Floats]
"""Maps ids (B, T) and mask (B, T), 1 = a token, to unit vectors (B, D)."""


def openvino_session(model: Path, threads: int, precision: str) -> Session:
    """Return a session of OpenVINO, which supports bfloat16; for one thread at a time.

    OpenVINO reads the ONNX file directly; its converter is not used.
    """
    openvino = openvino_runtime()
    os.putenv(ONEDNN_KEPT, "0")  # read once, when the first model is compiled
    options = {
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "bf16" if precision == "bf16" else "f32",
        "NUM_STREAMS": 1,
        "CPU_RUNTIME_CACHE_CAPACITY": KEPT_KERNELS,
    }
    core = openvino.Core()
    request = core.compile_model(core.read_model(model), "CPU", options).create_infer_request()

    def run(ids: Tokens, mask: Tokens) -> Floats:
        request.infer(dict(zip(INPUTS, (ids, mask), strict=True)))
        vectors: Floats = request.get_output_tensor().data.astype(
            np.float32
        )  # a copy: the next call overwrites the tensor
        return vectors

    return run


def openvino_runtime() -> Any:
    """Return the module of OpenVINO.

    Its import sends a usage report to its vendor, and writes an identifier into the home directory. It does neither if
    the package that sends them cannot be imported.
    """
    sys.modules.setdefault(OPENVINO_REPORTS, cast(ModuleType, None))
    import openvino

    return openvino


def onnx_runtime() -> Any:
    """Return the module of ONNX Runtime.

    From version 1.29 on it sends usage reports to its vendor unless this variable is set before its import. It would
    also start a thread for them, and a process with two threads cannot be forked.
    """
    os.putenv("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    return onnxruntime


def onnx_session(model: Path, threads: int) -> Session:
    """Return a session of ONNX Runtime. With threads = 1, the calling thread does all work."""
    onnxruntime = onnx_runtime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # idle threads do not use the cores
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    def run(ids: Tokens, mask: Tokens) -> Floats:
        vectors: Floats = session.run([OUTPUT], dict(zip(INPUTS, (ids, mask), strict=True)))[0]
        return vectors

    return run
