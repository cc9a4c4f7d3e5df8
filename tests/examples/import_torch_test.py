"""Compares a model imported by examples/python/import_torch.py with PyTorch, to 1e-5.

Arguments: the program run_imported, the source directory. Exit status 77 (skipped) without PyTorch.
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError:
    print("Python has no torch: nothing was compared")
    sys.exit(77)
import numpy as np
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

V, E, H, C, T, B = 11, 5, 4, 3, 7, 3
LENGTHS = [7, 4, 1]


class Tagger(nn.Module):
    def __init__(self, layer, **options):
        super().__init__()
        self.embedding = nn.Embedding(V, E)
        self.rnn = layer(E, H, **options)
        self.output = nn.Linear(2 * H if options.get("bidirectional") else H, C)

    def forward(self, ids):
        h, _ = self.rnn(pack_padded_sequence(self.embedding(ids), torch.tensor(LENGTHS)))
        return self.output(pad_packed_sequence(h, total_length=T)[0])


def imported_scores(directory, name, model, ids, mask):
    state = {tensor: x.numpy() for tensor, x in model.state_dict().items()}
    if name.startswith("stacked"):
        write_safetensors(directory / "state", state)
    else:
        np.savez(directory / "state.npz", **state)
        (directory / "state.npz").rename(directory / "state")
    write_safetensors(directory / "input", {"ids": ids, "mask": mask})
    for command in ([sys.executable, SCRIPT, "state", "weights", "--embedding", "embedding"],
                    [RUN_IMPORTED, name, "weights", "input", "output"]):
        done = subprocess.run(command, cwd=directory, text=True, capture_output=True)
        if done.returncode != 0:
            raise SystemExit(f"{name}: {done.stderr}")
    return read_safetensors(directory / "output")[0]["scores"]


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    ids = np.random.default_rng(1).integers(0, V, (T, B)).astype(np.int32)
    mask = (np.arange(T)[:, None] < LENGTHS).astype(np.float32)
    failed = False
    for name in (f"{stacked}{both}{cell}" for stacked in ("", "stacked_") for both in ("", "bidirectional_")
                 for cell in ("lstm", "gru")):
        model = Tagger(nn.LSTM if name.endswith("lstm") else nn.GRU, bidirectional="bidirectional" in name,
                       num_layers=2 if "stacked" in name else 1)
        with torch.no_grad():
            expected = model(torch.from_numpy(ids).long()).numpy()
        with tempfile.TemporaryDirectory() as directory:
            scores = imported_scores(pathlib.Path(directory), name, model, ids, mask)
        difference = np.abs((scores - expected) * mask[..., None]).max()
        failed |= not difference <= 1e-5
        print(f"{name:27} differs by {difference:.1e} at most, of {np.abs(expected).max():.2f}")
    return 1 if failed else 0


if __name__ == "__main__":
    RUN_IMPORTED, SOURCE = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    SCRIPT = SOURCE / "examples/python/import_torch.py"
    sys.path.insert(0, str(SCRIPT.parent))
    sys.dont_write_bytecode = True
    from attune import read_safetensors, write_safetensors

    sys.exit(main())
