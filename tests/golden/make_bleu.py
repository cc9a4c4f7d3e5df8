"""Writes bleu.json: BLEU and chrF of small corpora, in plain Python.

    python3 tests/golden/make_bleu.py

Definitions: BLEU: Papineni et al. (2002). Tokenisation 13a: Post (2018), "A call for clarity in reporting
BLEU scores", and NIST's mteval-v13a. Smoothing: Chen and Cherry (2014), method 3. chrF: Popovic (2015).
Details that these do not specify follow sacreBLEU. Needs only the standard library. str.split splits
text at blanks.
"""

import collections
import json
import math
import pathlib
import random
import re

ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
SYMBOLS = re.escape("".join(c for c in map(chr, range(0x20, 0x7F)) if not c.isalnum() and c not in "'-.,"))


def tokenize_13a(line):
    line = line.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, character in ENTITIES:
        line = line.replace(entity, character)
    line = re.sub(f"([{SYMBOLS}])", r" \1 ", f" {line} ")
    line = re.sub(r"([^0-9])([.,])", r"\1 \2 ", line)  # unless a digit precedes
    line = re.sub(r"([.,])([^0-9])", r" \1 \2", line)  # unless a digit follows
    line = re.sub(r"([0-9])-", r"\1 - ", line)
    return line.split()


def ngrams(units, n):
    return collections.Counter(tuple(units[i:i + n]) for i in range(len(units) - n + 1))


# ---- BLEU ----------------------------------------------------------------------------------------


def bleu_statistics(hypothesis, references, tokenize):
    """[length, reference length, matches of 1 to 4, n-grams of 1 to 4]"""
    words = [tokenize(line.rstrip()) for line in [hypothesis] + [line for line in references if line]]
    hypothesis, references = words[0], words[1:]
    closest = min((abs(len(r) - len(hypothesis)), len(r)) for r in references)[1]
    matches, totals = [], []
    for n in range(1, 5):
        found, allowed = ngrams(hypothesis, n), collections.Counter()
        for reference in references:
            allowed |= ngrams(reference, n)
        matches.append(sum((found & allowed).values()))
        totals.append(max(0, len(hypothesis) - n + 1))
    return [len(hypothesis), closest] + matches + totals


def bleu(statistics):
    length, reference_length, matches, totals = statistics[0], statistics[1], statistics[2:6], statistics[6:]
    if sum(matches) == 0 or min(totals) == 0:
        return 0.0
    penalty = min(1.0, math.exp(1 - reference_length / length))
    precisions, halvings = [], 0
    for found, n in zip(matches, totals):
        halvings += found == 0
        precisions.append(100 * found / n if found > 0 else 100 / (2 ** halvings * n))
    return penalty * math.exp(sum(map(math.log, precisions)) / 4)


# ---- chrF ----------------------------------------------------------------------------------------


def chrf_statistics(hypothesis, reference):
    """For each order of 1 to 6 characters [n-grams, n-grams of the reference, matches]"""
    counts = []
    for n in range(1, 7):
        h, r = (ngrams("".join(line.split()), n) for line in (hypothesis, reference))
        counts.append([sum(h.values()) if r else 0, sum(r.values()), sum((h & r).values())])
    return counts


def chrf(counts, beta=2):
    shares = [(m / h, m / r) for h, r, m in counts if h and r]
    if not shares:
        return 0.0
    precision, recall = (sum(column) / len(shares) for column in zip(*shares))
    if precision + recall == 0:
        return 0.0
    return 100 * (1 + beta ** 2) * precision * recall / (beta ** 2 * precision + recall)


# ---- Corpora -------------------------------------------------------------------------------------


def invented(count, seed):
    """Random sentences, and hypotheses in which some words are changed, dropped or added."""
    rng = random.Random(seed)
    words = [f"{a}{b}" for a in ("ka", "lo", "mi", "su", "te") for b in ("n", "ra", "vo", "x")] + [",", "3.5", "a-b"]
    pairs = []
    for _ in range(count):
        reference = [rng.choice(words) for _ in range(rng.randint(1, 25))]
        hypothesis = [rng.choice(words) if rng.random() < 0.2 else w for w in reference if rng.random() < 0.9]
        pairs.append((" ".join(hypothesis) + ".", [" ".join(reference) + "."]))
    return pairs


CORPORA = {
    "plain": [
        ("The old lighthouse keeper counts the ships.", ["The old lighthouse keeper is counting the ships."]),
        ("Two children are feeding ducks at the pond.", ["Two children feed the ducks at the pond."]),
        ("She bought bread, cheese and three apples.", ["She bought bread, cheese, and three apples."]),
    ],
    "punctuation": [
        ("It cost $1,250.75 (tax: 19%) in 2003-2004, e.g. here...", ["It cost $1,250.75 (19% tax) in 2003-04, e.g. there..."]),
        ("well-known 3-D, -5 or 7,x ,8 .9", ["well-known 3-D, -5 or 7 ,x ,8 .9"]),
        ("a_b [c] {d} e^f `g` h~i j|k \\l m/n", ["a_b [c] {d} e ^f `g` h~i j|k \\l m / n"]),
        ("'tis \"quoted\"; isn't it? Yes!!", ["'tis \"quoted\" ; isn't it ? Yes !"]),
        ("ends with two dots.. and 1.. and 2.,3", ["ends with two dots . . and 1 .. and 2 . , 3"]),
    ],
    "escapes": [
        ("a &lt;b&gt; tag &amp; &quot;text&quot; &apos;s", ["a <b> tag & \"text\" &apos;s"]),
        ("twice escaped &amp;lt; and &amp;amp; here <skipped>now", ["twice escaped < and & here now"]),
    ],
    "unicode": [
        ("Die Straße führt über die Brücke zum „alten“ Dorf.", ["Die Straße führt über eine Brücke ins „alte“ Dorf."]),
        ("猫\u3000は 窓 の そば で 眠っ て い ます 。", ["猫 は 窓 の そば で 寝 て い ます 。"]),
        ("no\u00a0break and thin\u2009blanks 🙂 stay.", ["no break and thin blanks 🙂 stay."]),
        ("e\u0301te\u0301 is not \u00e9t\u00e9", ["\u00e9t\u00e9 is not e\u0301te\u0301"]),
        ("lines\u2028and\u0085others\x1cend ", [" lines and others end"]),
    ],
    "case": [
        ("THE ΟΔΟΣ in İZMIR Is Wet.", ["the οδος in i̇zmir is wet."]),
        ("Ägypten Liegt In AFRIKA", ["ägypten liegt in afrika"]),
    ],
    "several references": [
        ("the red boat sails past the small island", ["the red boat is sailing past the little island",
                                                     "a red boat sails by the small island", "red boat, small island"]),
        ("he reads", ["he is reading", "he", "reading"]),
        ("one two three four", ["one two three", "one two three four five", ""]),
        ("the the the the the", ["the cat saw the dog", "the the end"]),
    ],
    "empty hypothesis": [
        ("", ["nothing was written here"]),
        ("The second sentence is right.", ["The second sentence is right."]),
    ],
    "blank hypothesis and reference": [("  \t", ["a b"]), ("x y z w v", [" "])],
    "all empty": [("", ["one line"]), ("", ["another line"])],
    "no match": [("alpha beta gamma delta", ["one two three four five"])],
    "no four in a row": [("a small brown dog runs over wet grass", ["a small brown cat runs over dry grass"])],
    "shorter than four": [("good morning", ["good morning"]), ("yes", ["yes"]), ("no", ["maybe not"])],
    "longer than the reference": [("a very very long answer with many words", ["a long answer"])],
    "invented": invented(60, 5),
}


def total(rows):
    return [sum(column) for column in zip(*rows)]


def bleu_of(pairs):
    found = []
    for name, tokenize in (("13a", tokenize_13a), ("none", str.split)):
        statistics = total(bleu_statistics(h, r, tokenize) for h, r in pairs)
        found.append({"tokenization": name, "bleu": bleu(statistics), "statistics": statistics})
    return found


def chrf_of(pairs):
    """chrF2 of the reference with the highest score."""
    rows = [max((chrf_statistics(h, r) for r in references if r), key=chrf) for h, references in pairs]
    return {"chrf": chrf([total(order) for order in zip(*rows)]), "sentences": [chrf(row) for row in rows]}


def main():
    cases = [{"name": name, "hypotheses": [h for h, _ in pairs], "references": [r for _, r in pairs],
              "tokens": [tokenize_13a(h.rstrip()) for h, _ in pairs], "bleu": bleu_of(pairs), **chrf_of(pairs)}
             for name, pairs in CORPORA.items()]
    path = pathlib.Path(__file__).with_name("bleu.json")
    path.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
