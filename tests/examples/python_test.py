"""Tests examples/python: reads files written by the C++ programs, and compares imported weights in
PyTorch's layout with PyTorch's results in tests/golden.

Arguments: the programs run_imported and attune, the source directory. Exit status 77 without numpy.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
except ImportError:
    print("Python has no numpy: nothing was tested")
    sys.exit(77)

RUN_IMPORTED, ATTUNE, SOURCE = (str(pathlib.Path(argument).resolve()) for argument in sys.argv[1:])
PYTHON = pathlib.Path(SOURCE, "examples/python")
sys.path.insert(0, str(PYTHON))
sys.dont_write_bytecode = True
import attune
import import_torch

WORDS = "3 May 1979\t1979-05-03\n27 June 2001\t2001-06-27\n"


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)


def trained():
    """A checkpoint of attune, trained on two dates."""
    directory = pathlib.Path(SCRATCH.name)
    (directory / "dates.tsv").write_text(WORDS)
    done = run(ATTUNE, "train", directory / "dates.tsv", "--valid", directory / "dates.tsv", "--out", directory / "model",
               "--steps", "2", "--hidden", "8", "--tokens", "characters")
    assert done.returncode == 0, done.stderr
    return str(directory / "model/best.safetensors")


SCRATCH = tempfile.TemporaryDirectory()
CHECKPOINT = trained()


def golden(name):
    tensors = json.loads(pathlib.Path(SOURCE, f"tests/golden/{name}.json").read_text())["tensors"]
    return {name: np.array(x["data"]).reshape(x["shape"]) for name, x in tensors.items()}


def torch_layout(case, place, suffix):
    """Converts a layer of a golden file to PyTorch's layout, with two random biases whose sum is b
    (except a GRU's b_hn)."""
    b, H = case[f"{place}b"], case[f"{place}W_h"].shape[0]
    b_hh = np.arange(len(b)) / 256 - 1
    b_ih = b - b_hh
    if f"{place}b_hn" in case:
        b_ih[2 * H :], b_hh[2 * H :] = b[2 * H :], case[f"{place}b_hn"]
    return {f"weight_ih_{suffix}": case[f"{place}W_x"].T, f"weight_hh_{suffix}": case[f"{place}W_h"].T,
            f"bias_ih_{suffix}": b_ih, f"bias_hh_{suffix}": b_hh}


class Test(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def fails(self, expected, program, *arguments):
        """Checks for one line on standard error and status 1."""
        done = run(sys.executable, PYTHON / program, *arguments, cwd=self.directory)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", f"{program}: {expected}\n"))

    def equal(self, tensors, others):
        self.assertEqual(tensors.keys(), others.keys())
        for name, x in tensors.items():
            self.assertEqual((x.dtype, x.shape, x.tobytes()), (others[name].dtype, others[name].shape, others[name].tobytes()))


class Safetensors(Test):
    def test_write_and_read_are_inverse(self):
        tensors = {"f32": np.float32([[1, 2, 3]]), "f64": np.float64(1 / 3), "i32": np.zeros((0, 2), np.int32)}
        path = self.directory / "x.safetensors"
        attune.write_safetensors(path, tensors | {"turned": np.arange(6.0).reshape(2, 3).T}, {"名": "é\n"})
        read, metadata = attune.read_safetensors(path)
        self.equal(read, tensors | {"turned": np.array([[0.0, 3], [1, 4], [2, 5]])})
        self.assertEqual(metadata, {"名": "é\n"})

    def test_bfloat16_becomes_float32(self):
        path = self.directory / "x.safetensors"
        header = b'{"x":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}}'
        path.write_bytes(len(header).to_bytes(8, "little") + header + bytes.fromhex("803f 20c0 007f"))
        np.testing.assert_array_equal(attune.read_safetensors(path)[0]["x"], np.float32([1, -2.5, 2.0**127]))

    @unittest.skipIf(attune.xxhash is None, "xxhash is not installed")
    def test_the_checksum_of_the_library_is_verified(self):
        data = bytearray(pathlib.Path(CHECKPOINT).read_bytes())
        self.assertIn(b"attune.checksum", data)
        attune.read_safetensors(CHECKPOINT)
        data[-1] ^= 1
        path = self.directory / "damaged.safetensors"
        path.write_bytes(data)
        with self.assertRaisesRegex(attune.Error, "damaged.safetensors: its contents do not match its checksum"):
            attune.read_safetensors(path)

    def test_without_xxhash_warns_that_the_checksum_is_not_verified(self):
        (self.directory / "xxhash.py").write_text("raise ImportError\n")
        done = run(sys.executable, "-c", "import sys, attune; attune.read_safetensors(sys.argv[1])", CHECKPOINT,
                   env={**os.environ, "PYTHONPATH": f"{self.directory}:{PYTHON}"})
        self.assertEqual((done.returncode, done.stderr), (
            0, f"{CHECKPOINT}: checksum not verified: the Python package xxhash is not installed\n"))

    def test_a_malformed_file_is_an_error_with_the_reason(self):
        path = self.directory / "x.safetensors"
        entry = '"dtype":"F32","shape":[2],"data_offsets":'
        for header, why in ((f'{{"x":{{{entry}[0,4]}}}}', r"'x' of shape \(2,\) does not have 4 bytes"),
                            (f'{{"x":{{{entry}[4,12]}}}}', "'x' overlaps the tensor before it, or leaves a gap"),
                            (f'{{"x":{{{entry}[0,16]}}}}', "the tensors have 16 bytes, but the file has 8"),
                            ('{"x":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}', "dtype 'U8' of 'x' is not one of"),
                            ("{", "not a readable safetensors file: Expecting")):
            path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + bytes(4 if "[0,4]" in header else 8))
            with self.assertRaisesRegex(attune.Error, why):
                attune.read_safetensors(path)
        path.write_bytes(b"\xff" * 8)
        with self.assertRaisesRegex(attune.Error, "the file is shorter than its header"):
            attune.read_safetensors(path)

    def test_other_types_are_not_written(self):
        with self.assertRaisesRegex(attune.Error, "'x' is int64, expected float64, float32 or int32"):
            attune.write_safetensors(self.directory / "x", {"x": np.arange(3)})


class Attention(Test):
    def align(self, form):
        (self.directory / "dates.tsv").write_text(WORDS)
        path = self.directory / f"attention.{form}"
        done = run(ATTUNE, "align", self.directory / "dates.tsv", "--model", CHECKPOINT, "--format", form, "--out", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return path

    def test_json_has_words_and_weights(self):
        pairs = attune.read_attention(self.align("json"))
        self.assertEqual([(*p.source,) for p in pairs], [(*"3 May 1979",), (*"27 June 2001",)])
        self.assertEqual([(*p.target,) for p in pairs], [(*"1979-05-03",), (*"2001-06-27",)])
        for pair in pairs:
            np.testing.assert_allclose(pair.weights.sum(1), 1, rtol=1e-5)

    def test_a_truncated_file_is_an_error(self):
        path = self.align("json")
        path.write_bytes(path.read_bytes()[:-7])
        with self.assertRaisesRegex(attune.Error, "attention.json: not the output of align --format json: "):
            attune.read_attention(path)


class Log(Test):
    def test_an_incomplete_last_line_is_ignored(self):
        path = self.directory / "log.jsonl"
        path.write_text('{"step":1,"loss":null}\n{"step":2,"loss":0.5}\n{"step":')
        self.assertEqual(attune.read_log(path), [{"step": 1, "loss": None}, {"step": 2, "loss": 0.5}])

    def test_any_other_line_must_be_an_object(self):
        path = self.directory / "log.jsonl"
        path.write_text('{"step":1}\n[2]\n{"step":3}\n')
        with self.assertRaisesRegex(attune.Error, "log.jsonl:2: not a JSON object"):
            attune.read_log(path)


@unittest.skipIf(run(sys.executable, "-c", "import matplotlib").returncode != 0, "matplotlib is not installed")
class Plot(Test):
    def plot(self, *arguments):
        done = run(sys.executable, PYTHON / "plot.py", *arguments, cwd=self.directory)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_attention_has_the_words_of_both_sides_in_any_script(self):
        pair = {"source": ["Ένα", "$x$", " два"], "target": ["e\x1btt", "</s>"], "weights": [[0.5, 0.25, 0.25], [0, 0.1, 0.9]]}
        (self.directory / "a.json").write_text(json.dumps(pair, ensure_ascii=False) + "\n")
        self.plot("attention", "a.json", "--out", "a.svg")
        svg = (self.directory / "a.svg").read_text()
        for word in ("Ένα", "$x$", "␣два", r"e\x1btt", "&lt;/s&gt;"):
            self.assertIn(f">{word}</text>", svg)
        self.plot("attention", "a.json", "--out", "a.png")
        self.assertEqual((self.directory / "a.png").read_bytes()[:4], b"\x89PNG")

    def test_a_log_has_its_loss_and_the_fields_of_validations(self):
        lines = [{"step": 50 * i, "loss": 1 / i, "rate": 0.1} | ({"bleu": 10 * i} if i % 2 else {}) for i in range(1, 6)]
        (self.directory / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.plot("log", "log.jsonl", "--out", "c.svg")
        svg = (self.directory / "c.svg").read_text()
        self.assertEqual([f">{field}</text>" in svg for field in ("loss", "bleu", "rate", "step")], [True, True, False, True])
        self.fails("log.jsonl: no line has step and chrf", "plot.py", "log", "log.jsonl", "--fields", "loss,chrf")

    def test_errors_are_one_line(self):
        (self.directory / "a.json").write_text('{"source":["a"],"target":["b"],"weights":[[1]]}\n')
        self.fails("--pair 2: expected 1 to 1, the pairs in a.json", "plot.py", "attention", "a.json", "--pair", "2")
        self.fails("none: No such file or directory", "plot.py", "log", "none")


@unittest.skipIf(run(sys.executable, "-c", "import ctranslate2").returncode != 0, "ctranslate2 is not installed")
class ToCtranslate2(Test):
    def test_scores_of_translations_agree_to_1e3(self):
        import ctranslate2

        dates = self.directory / "dates.tsv"
        dates.write_text(WORDS)
        pairs = [[list(side) for side in line.split("\t")] for line in WORDS.splitlines()]
        for number, options in enumerate((["--norm", "before"], ["--norm", "after", "--tied", "target-output", "--nonlinearity", "gelu"])):
            model = self.directory / f"{number}/best.safetensors"
            done = run(ATTUNE, "train", dates, "--valid", dates, "--out", model.parent, "--model", "transformer",
                       "--hidden", "32", "--tokens", "characters", "--steps", "20", *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            scores = run(ATTUNE, "score", dates, "--model", model, "--json").stdout.splitlines()
            out = self.directory / f"out{number}"
            done = run(sys.executable, PYTHON / "to_ctranslate2.py", model, out)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            peer = ctranslate2.Translator(str(out)).score_batch(*zip(*pairs))
            for own, theirs in zip(scores, peer, strict=True):
                self.assertLess(abs(json.loads(own)["log_probability"] - sum(theirs.log_probs)), 1e-3)

    def test_another_model_is_an_error(self):
        self.fails(f"{CHECKPOINT}: expected a model of attune train --model transformer", "to_ctranslate2.py", CHECKPOINT, "out")


class ImportTorch(Test):
    def test_weights_of_the_golden_files_become_their_parameters(self):
        for name, layers in (("stacked_lstm", {"layer1.": "l0"}), ("stacked_gru", {"layer1.": "l0"}),
                             ("bidirectional_lstm", {"forward.": "l0", "backward.": "l0_reverse"}),
                             ("bidirectional_gru", {"forward.": "l0", "backward.": "l0_reverse"}),
                             ("stacked_lstm", {"layer1.": "l0", "layer2.": "l1"}),
                             ("stacked_gru", {"layer1.": "l0", "layer2.": "l1"})):
            case, state, expected = golden(name), {}, {}
            for place, suffix in layers.items():
                state |= {f"a.rnn.{tensor}": x for tensor, x in torch_layout(case, place, suffix).items()}
                ours = place if len(layers) > 1 else ""
                expected |= {f"a.rnn.{ours}{p}": case[place + p] for p in ("W_x", "W_h", "b", "b_hn") if place + p in case}
            self.equal(import_torch.import_state(state), expected)

    def test_imported_weights_give_the_results_of_the_golden_files(self):
        """Each step's input is a row of the table, and the output is the identity."""
        for name in ("bidirectional_lstm", "bidirectional_gru"):
            case = golden(name)
            T, B, D = case["x"].shape
            state = {f"rnn.{tensor}": x for place, suffix in (("forward.", "l0"), ("backward.", "l0_reverse"))
                     for tensor, x in torch_layout(case, place, suffix).items()}
            state |= {"embedding.weight": case["x"].reshape(T * B, D), "output.weight": np.eye(4), "output.bias": np.zeros(4)}
            np.savez(self.directory / "state.npz", **state)
            imported = run(sys.executable, PYTHON / "import_torch.py", "state.npz", "weights", "--embedding", "embedding",
                           cwd=self.directory)
            self.assertEqual((imported.returncode, imported.stderr), (0, ""))
            attune.write_safetensors(self.directory / "input",
                                     {"ids": np.arange(T * B, dtype=np.int32).reshape(T, B), "mask": case["mask"]})
            done = run(RUN_IMPORTED, name, "weights", "input", "output", cwd=self.directory)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            scores = attune.read_safetensors(self.directory / "output")[0]["scores"]
            np.testing.assert_allclose(scores * case["mask"][..., None], case["h"], rtol=0, atol=1e-12)

    def test_layers_without_bias_cells_and_linear_layers(self):
        x, half = np.random.default_rng(1).normal, np.float16
        state = {"cell.weight_ih": x(size=(8, 3)), "cell.weight_hh": x(size=(8, 2)), "out.weight": x(size=(5, 2)).astype(half)}
        imported = import_torch.import_state(state, {"out": import_torch.linear}, {"": "model", "out": "not reached"})
        self.equal(imported, {"model.cell.W_x": state["cell.weight_ih"].T, "model.cell.W_h": state["cell.weight_hh"].T,
                              "model.cell.b": np.zeros(8), "model.out.W": state["out.weight"].T.astype(np.float32)})

    def test_modules_are_renamed_with_their_submodules(self):
        state = {f"module.{name}.{kind}": np.ones((2, 2) if kind == "weight" else 2) for name in ("a", "a.b", "ab")
                 for kind in ("weight", "bias")}
        self.assertEqual([*import_torch.import_state(state, None, {"module.a": "x", "module": ""})],
                         ["x.W", "x.b", "x.b.W", "x.b.b", "ab.W", "ab.b"])

    def refuses(self, expected, state, *options):
        np.savez(self.directory / "state.npz", **state)
        self.fails(expected, "import_torch.py", "state.npz", "out", *options)
        self.assertFalse((self.directory / "out").exists())

    def test_missing_unused_and_misshapen_tensors_are_named(self):
        state = {f"rnn.{name}": x for name, x in torch_layout(golden("stacked_lstm"), "layer1.", "l0").items()}
        without = {name: x for name, x in state.items() if name != "rnn.bias_hh_l0"}
        self.refuses("rnn.bias_hh_l0 is missing", without)
        self.refuses("rnn.weight_hh_l1 is missing", state | {"rnn.weight_ih_l1": np.ones((8, 2))})
        self.refuses("unsupported tensors: rnn.extra", state | {"rnn.extra": np.ones(3)})
        self.refuses("weight is missing", {"v": np.ones(3)})
        self.refuses("rnn.weight_ih_l0 is (8,), expected (8, any)", state | {"rnn.weight_ih_l0": np.ones(8)})
        self.refuses("rnn.weight_hh_l0 is (2, 2), expected (8, 2) of an LSTM or (6, 2) of a GRU",
                     state | {"rnn.weight_hh_l0": np.ones((2, 2))})
        self.refuses("rnn.bias_ih_l0 is int64, expected floating-point numbers",
                     state | {"rnn.bias_ih_l0": np.arange(8)})
        self.refuses("e.weight is ambiguous: specify --embedding e for an nn.Embedding, or --linear e for an nn.Linear without bias",
                     {"e.weight": np.ones((3, 2))})

    def test_options_must_fit_the_file(self):
        state = {"a.weight": np.ones((3, 2)), "a.bias": np.ones(3), "b.weight": np.ones((3, 2)), "b.bias": np.ones(3)}
        self.refuses("unknown module 'c', expected one of a, b", state, "--embedding", "c")
        self.refuses("two tensors would have the name a.W", state, "--name", "b=a")
        self.refuses("--name b: expected OLD=NEW", state, "--name", "b")
        self.fails("none: No such file or directory", "import_torch.py", "none", "out")
        self.fails("state.npz is also read, expected another output file", "import_torch.py", "state.npz", "state.npz")
        self.fails("/dev/null: not a regular file", "import_torch.py", "state.npz", "/dev/null")
        data = (self.directory / "state.npz").read_bytes()
        (self.directory / "state.npz").write_bytes(data.replace(b"PK\1\2", b"PK\1\3"))
        self.fails("state.npz: not a readable NPZ file: Bad magic number for central directory", "import_torch.py", "state.npz", "out")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
