"""Writes log_mel.json: the log power of a waveform in bands of the mel scale, by numpy.

    /usr/bin/python3 tests/golden/make_log_mel.py
"""

import json
import pathlib

import numpy as np

RATE, WINDOW, STEP, BANDS, LOWEST, EMPHASIS = 8000, 200, 80, 20, 100.0, 0.97


def waveform():
    """Three tones that come one after the other, and noise."""
    t = np.arange(700) / RATE
    tones = np.sin(2 * np.pi * np.choose(np.arange(700) // 240, [440.0, 1200.0, 3100.0]) * t)
    x = 0.5 * tones + 0.02 * np.random.default_rng(1).standard_normal(700)
    return np.float32(np.round(x, 5)).astype(np.float64)


def log_mel(x):
    x = np.append(x[0], x[1:] - EMPHASIS * x[:-1])
    size = 1 << (WINDOW - 1).bit_length()
    frames = np.lib.stride_tricks.sliding_window_view(x, WINDOW)[::STEP] * np.hanning(WINDOW)
    power = np.abs(np.fft.rfft(frames, size)) ** 2
    mel = lambda hertz: 2595 * np.log10(1 + np.asarray(hertz) / 700)
    corners = 700 * (10 ** (np.linspace(mel(LOWEST), mel(RATE / 2), BANDS + 2) / 2595) - 1)
    bins = np.arange(size // 2 + 1) * RATE / size
    triangles = [np.interp(bins, corners[b:b + 3], [0, 1, 0], left=0, right=0) for b in range(BANDS)]
    return np.log(np.maximum(power @ np.array(triangles).T, 1e-10))


def main():
    x = waveform()
    tensors = {"waveform": x, "features": log_mel(x)}
    lines = ",\n".join(f'    "{name}": {json.dumps({"shape": list(value.shape), "data": value.reshape(-1).tolist()})}'
                       for name, value in tensors.items())
    path = pathlib.Path(__file__).with_name("log_mel.json")
    path.write_text(f'{{\n  "made_with": "numpy {np.__version__}",\n  "tensors": {{\n{lines}\n  }},\n  "numbers": {{}}\n}}\n')


if __name__ == "__main__":
    main()
