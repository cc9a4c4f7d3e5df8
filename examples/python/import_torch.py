#!/usr/bin/env python3
"""Converts the weights of PyTorch's nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell, nn.Linear and
nn.Embedding to a file for nn::load_parameters. Needs only numpy.

Modules keep their names: `rnn` of a PyTorch model becomes the scope "rnn". Corresponding layers:

    nn.LSTM(D, H)                        nn::Lstm(scope / "rnn", D, H)
    nn.LSTM(D, H, bidirectional=True)    nn::Bidirectional<nn::Lstm>(scope / "rnn", D, H)
    nn.LSTM(D, H, num_layers=2)          nn::Stacked<nn::Lstm>(scope / "rnn", D, H, {.layers = 2})
    with both options                    nn::Stacked<nn::Bidirectional<nn::Lstm>>(
                                             scope / "rnn", D, H, {.layers = 2})

and likewise for nn.GRU and nn::Gru. Weights are transposed, since attune computes y = x W + b. The
gates have the same order. attune stores the sum of PyTorch's two biases, except for the candidate
of a GRU, where the reset gate multiplies the second bias (b_hn).
"""
import argparse
import os
import re
import zipfile
import zlib

import numpy as np

from attune import Arguments, Error, read_safetensors, run, write_safetensors


def lstm(place, W_ih, W_hh, b_ih, b_hh, one_bias=np.add):
    return {f"{place}W_x": W_ih.T, f"{place}W_h": W_hh.T, f"{place}b": one_bias(b_ih, b_hh)}


def gru(place, W_ih, W_hh, b_ih, b_hh, one_bias=np.add):
    rz, n = slice(2 * W_hh.shape[1]), slice(2 * W_hh.shape[1], None)
    b = np.concatenate([one_bias(b_ih[rz], b_hh[rz]), b_ih[n]])
    return {f"{place}W_x": W_ih.T, f"{place}W_h": W_hh.T, f"{place}b": b, f"{place}b_hn": b_hh[n]}


CELLS = {4: lstm, 3: gru}  # by the number of gates


class Module:
    """The tensors of one module. `take` removes each; tensors that remain are not supported."""

    def __init__(self, name, tensors):
        self.name, self.tensors = name, tensors

    def names(self, tensors):
        return ", ".join(".".join(filter(None, [self.name, tensor])) for tensor in tensors)

    def take(self, tensor, *shape):
        """Removes and returns a tensor. Checks its extents; None matches any."""
        if tensor not in self.tensors:
            raise Error(f"{self.names([tensor])} is missing")
        x = self.tensors.pop(tensor)
        if x.ndim != len(shape) or any(n not in (None, extent) for n, extent in zip(shape, x.shape)):
            expected = ", ".join("any" if n is None else str(n) for n in shape)
            raise Error(f"{self.names([tensor])} is {x.shape}, expected ({expected})")
        if x.dtype.kind != "f":
            raise Error(f"{self.names([tensor])} is {x.dtype}, expected floating-point numbers")
        return x if x.dtype == np.float64 else x.astype(np.float32)


def cell(module, suffix, inputs, biased):
    """Returns the function that converts the cell's tensors, and the tensors."""
    W_hh = module.take(f"weight_hh{suffix}", None, None)
    rows, H = W_hh.shape
    if H == 0 or rows not in (4 * H, 3 * H):
        raise Error(f"{module.names(['weight_hh' + suffix])} is {W_hh.shape}, expected ({4 * H}, {H}) of an LSTM or "
                    f"({3 * H}, {H}) of a GRU")
    W_ih = module.take(f"weight_ih{suffix}", rows, inputs)
    b_ih, b_hh = (module.take(f"bias_{part}{suffix}", rows) if biased else np.zeros(rows, W_hh.dtype)
                  for part in ("ih", "hh"))
    return CELLS[rows // H], (W_ih, W_hh, b_ih, b_hh)


def recurrent(module):
    """Converts nn.LSTM and nn.GRU (weight_ih_l0_reverse, ...), or nn.LSTMCell and nn.GRUCell (weight_ih)."""
    layers = {int(match[1]) for match in (re.search(r"_l(\d+)", tensor) for tensor in module.tensors) if match}
    biased = any(tensor.startswith("bias_") for tensor in module.tensors)
    both_ways = any(tensor.endswith("_reverse") for tensor in module.tensors)
    stacked, parameters, inputs = len(layers) > 1, {}, None
    for layer in range(max(layers) + 1) if layers else [""]:
        above = f"layer{layer + 1}." if stacked else ""
        for way, reverse in (("forward.", ""), ("backward.", "_reverse")) if both_ways else [("", "")]:
            suffix = f"_l{layer}{reverse}" if layers else ""
            parameters_of, tensors = cell(module, suffix, inputs, biased)
            parameters |= parameters_of(above + way, *tensors)
        inputs = tensors[1].shape[1] * (2 if both_ways else 1)  # input size of the next layer
    return parameters


def linear(module):
    W = module.take("weight", None, None).T
    return {"W": W, "b": module.take("bias", W.shape[1])} if "bias" in module.tensors else {"W": W}


def embedding(module):
    return {"E": module.take("weight", None, None)}


def kind_of(module, kinds):
    """The conversion function, by the user's choice or by the names of the tensors."""
    if module.name in kinds:
        return kinds[module.name]
    if any(tensor.startswith("weight_ih") for tensor in module.tensors):
        return recurrent
    if "weight" in module.tensors and "bias" not in module.tensors:
        raise Error(f"{module.names(['weight'])} is ambiguous: specify --embedding {module.name} for an nn.Embedding, or "
                    f"--linear {module.name} for an nn.Linear without bias")
    return linear


def is_within(name, module):
    return module in ("", name) or name.startswith(module + ".")


def renamed(name, names):
    for old, new in names.items():
        if is_within(name, old):
            return ".".join(filter(None, [new, name[len(old) :].strip(".")]))
    return name


def import_state(state, kinds=None, names=None):
    """Converts a state dict (name -> array) to parameters of attune. `kinds`: module -> embedding or
    linear, if its tensor names are ambiguous; `names`: old -> new prefix of module names.
    """
    modules, parameters = {}, {}
    for name, x in state.items():
        module, _, tensor = name.rpartition(".")
        modules.setdefault(module, Module(module, {})).tensors[tensor] = x
    for option in [*(kinds or {}), *(names or {})]:
        if not any(is_within(name, option) for name in modules):
            raise Error(f"unknown module {option!r}, expected one of {', '.join(modules)}")
    for name, module in modules.items():
        for parameter, x in kind_of(module, kinds or {})(module).items():
            path = ".".join(filter(None, [renamed(name, names or {}), parameter]))
            if path in parameters:
                raise Error(f"two tensors would have the name {path}")
            parameters[path] = x
        if module.tensors:
            raise Error(f"unsupported tensors: {module.names(module.tensors)}")
    return parameters


def read_state(path):
    """Reads a state dict from safetensors or NPZ."""
    if not zipfile.is_zipfile(path):
        return read_safetensors(path)[0]
    try:
        with np.load(path, allow_pickle=False) as npz:
            if any(name.endswith("data.pkl") for name in npz.files):
                raise Error(f"{path}: files of torch.save are not supported. Write the state dict as NPZ: "
                            "np.savez(FILE, **{name: x.numpy() for name, x in model.state_dict().items()})")
            return {name: np.asarray(x) for name, x in npz.items()}
    except (ValueError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise Error(f"{path}: not a readable NPZ file: {error}") from None


def main():
    parser = Arguments(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("state", help="file of the state dict, safetensors or NPZ")
    parser.add_argument("out", help="output file, safetensors")
    parser.add_argument("--embedding", action="append", default=[], metavar="MODULE",
                        help="MODULE is an nn.Embedding; can be repeated")
    parser.add_argument("--linear", action="append", default=[], metavar="MODULE",
                        help="MODULE is an nn.Linear without bias; can be repeated")
    parser.add_argument("--name", action="append", default=[], metavar="OLD=NEW",
                        help="rename module OLD and its submodules to NEW; either may be empty; can be repeated")
    arguments = parser.parse_args()
    for name in arguments.name:
        if name.count("=") != 1:
            raise Error(f"--name {name}: expected OLD=NEW")
    if os.path.exists(arguments.out) and os.path.samefile(arguments.state, arguments.out):
        raise Error(f"{arguments.out} is also read, expected another output file")
    kinds = dict.fromkeys(arguments.embedding, embedding) | dict.fromkeys(arguments.linear, linear)
    names = dict(name.split("=") for name in arguments.name)
    write_safetensors(arguments.out, import_state(read_state(arguments.state), kinds, names))


if __name__ == "__main__":
    run(main)
