# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's training of all weights in f32, through llama-cpp-python.

It trains a stream of tokens in windows of `cutoff`, every token of it, an update each window: it can neither leave tokens
out of the loss nor add up several windows. The token embedding itself stays as it is.

    llama.py TASK                    trains
    llama.py --convert IN OUT        writes a GGUF with all weights in f32
"""
import ctypes
import pathlib
import sys

import llama_cpp
import task as shared

F32, I32 = 0, 26  # ggml's numbers of types


class OptParams(ctypes.Structure):
    """llama.h's llama_opt_params; that of llama_cpp lacks the last field."""
    _fields_ = [("n_ctx_train", ctypes.c_uint32), ("param_filter", ctypes.c_void_p), ("param_filter_ud", ctypes.c_void_p),
                ("get_opt_pars", ctypes.c_void_p), ("get_opt_pars_ud", ctypes.c_void_p), ("optimizer", ctypes.c_int)]


class AdamW(ctypes.Structure):
    """ggml-opt.h's ggml_opt_optimizer_params."""
    _fields_ = [(name, ctypes.c_float) for name in ("alpha", "beta1", "beta2", "eps", "wd", "sgd_alpha", "sgd_wd")]


EpochCallback = ctypes.CFUNCTYPE(None, ctypes.c_bool, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64,
                                 ctypes.c_int64, ctypes.c_int64)


def libraries() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """libllama and libggml-base with the prototypes used here."""
    folder = pathlib.Path(llama_cpp.__file__).parent / "lib"
    llama, ggml = ctypes.CDLL(str(folder / "libllama.so")), ctypes.CDLL(str(folder / "libggml-base.so"))
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    llama.llama_opt_init.argtypes = [pointer, pointer, OptParams]
    llama.llama_opt_init.restype = None
    llama.llama_opt_epoch.argtypes = [pointer, pointer, pointer, pointer, number, EpochCallback, EpochCallback]
    llama.llama_opt_epoch.restype = None
    ggml.ggml_opt_dataset_init.argtypes = [ctypes.c_int, ctypes.c_int, number, number, number, number]
    for name in ("ggml_opt_dataset_init", "ggml_opt_dataset_data", "ggml_opt_dataset_labels", "ggml_get_data",
                 "ggml_opt_result_init"):
        getattr(ggml, name).restype = pointer
    for name in ("ggml_opt_dataset_data", "ggml_opt_dataset_labels", "ggml_get_data"):
        getattr(ggml, name).argtypes = [pointer]
    ggml.ggml_opt_result_loss.argtypes = [pointer, ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_double)]
    return llama, ggml


def convert(source: str, target: str) -> None:
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.allow_requantize, params.pure = llama_cpp.LLAMA_FTYPE_ALL_F32, True, True
    if llama_cpp.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(params)) != 0:
        sys.exit(f"{source}: llama.cpp could not convert it to f32")


def load(task: shared.Task):
    model_params = llama_cpp.llama_model_default_params()
    model_params.load_mode = llama_cpp.LLAMA_LOAD_MODE_NONE  # weights must be writable
    model = llama_cpp.llama_model_load_from_file(task.gguf.encode(), model_params)
    params = llama_cpp.llama_context_default_params()
    # K and V get gradients only where one micro-batch is the whole context.
    params.n_ctx = params.n_batch = params.n_ubatch = params.n_outputs_max = params.n_outputs_max_per_seq = task.cutoff
    params.n_threads = params.n_threads_batch = task.threads
    params.type_k = params.type_v = F32
    params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED  # it has no backward
    return model, llama_cpp.llama_init_from_model(model, params)


def dataset(ggml: ctypes.CDLL, task: shared.Task) -> tuple[int, int]:
    stream = [token for row in task.rows for token in row["input_ids"]]
    num_windows = (len(stream) - 1) // task.cutoff
    made = ggml.ggml_opt_dataset_init(I32, I32, task.cutoff, task.cutoff, num_windows, 1)
    for part, shift in ((ggml.ggml_opt_dataset_data(made), 0), (ggml.ggml_opt_dataset_labels(made), 1)):
        tokens = (ctypes.c_int32 * (num_windows * task.cutoff))(*stream[shift:shift + num_windows * task.cutoff])
        ctypes.memmove(ggml.ggml_get_data(part), tokens, ctypes.sizeof(tokens))
    return made, num_windows


def train(task: shared.Task) -> shared.Record:
    record, sums = shared.Record(), [0.0]
    llama, ggml = libraries()
    model, context = load(task)
    rows, num_windows = dataset(ggml, task)
    result, adamw = ggml.ggml_opt_result_init(), AdamW(task.learning_rate, 0.9, 0.999, 1e-8, 0.0, 0.0, 0.0)

    def end_window(_train, _context, _dataset, found, _window, _windows, _start) -> None:
        mean, uncertainty = ctypes.c_double(), ctypes.c_double()
        record.end_update(task.cutoff)
        ggml.ggml_opt_result_loss(found, ctypes.byref(mean), ctypes.byref(uncertainty))
        sums.append(mean.value * len(record.times))
        record.losses.append(sums[-1] - sums[-2])

    def address(library: ctypes.CDLL, name: str) -> int:
        return ctypes.cast(getattr(library, name), ctypes.c_void_p).value

    callback = EpochCallback(end_window)
    llama.llama_opt_init(context, model, OptParams(0, address(llama, "llama_opt_param_filter_all"), None,
                                                   address(ggml, "ggml_opt_get_constant_optimizer_params"),
                                                   ctypes.addressof(adamw), 0))
    llama.llama_opt_epoch(context, rows, result, None, num_windows, callback, EpochCallback(0))
    return record


if __name__ == "__main__":
    if sys.argv[1] == "--convert":
        convert(sys.argv[2], sys.argv[3])
    else:
        work = shared.read()
        train(work).write(work.out)
