"""Writes bleu.json: BLEU and chrF of small corpora, in plain Python.

    python3 tests/golden/make_bleu.py

From the definitions: Papineni et al. (2002) for BLEU; Post (2018), "A call for clarity in reporting
BLEU scores", and NIST's mteval-v13a for the tokenisation 13a; Chen and Cherry (2014), method 3, for
smoothing; Popovic (2015, 2017) for chrF and chrF++. What these leave open is as in sacreBLEU. It
needs nothing but the standard library. Text is split at blanks by str.split.
"""

import collections
import json
import math
import pathlib
import random
import re
import string

ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
SYMBOLS = re.escape("".join(c for c in map(chr, range(0x20, 0x7F)) if not c.isalnum() and c not in "'-.,"))


def tokenize_13a(line):
    line = line.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, character in ENTITIES:
        line = line.replace(entity, character)
    line = re.sub(f"([{SYMBOLS}])", r" \1 ", f" {line} ")
    line = re.sub(r"([^0-9])([.,])", r"\1 \2 ", line)  # unless a digit stands before
    line = re.sub(r"([.,])([^0-9])", r" \1 \2", line)  # unless a digit follows
    line = re.sub(r"([0-9])-", r"\1 - ", line)
    return line.split()


def ngrams(units, n):
    return collections.Counter(tuple(units[i:i + n]) for i in range(len(units) - n + 1))


# ---- BLEU ----------------------------------------------------------------------------------------


def bleu_statistics(hypothesis, references, tokenize, lower):
    """[length, reference length, matches of 1 to 4, n-grams of 1 to 4]"""
    words = [tokenize((line.lower() if lower else line).rstrip())
             for line in [hypothesis] + [line for line in references if line]]
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


def bleu(statistics, smooth, effective_order):
    length, reference_length, matches, totals = statistics[0], statistics[1], statistics[2:6], statistics[6:]
    if length == 0:
        penalty = 1.0 if reference_length == 0 else 0.0
    else:
        penalty = min(1.0, math.exp(1 - reference_length / length))
    precisions = [0.0] * 4
    if sum(matches) == 0:
        return {"bleu": 0.0, "brevity_penalty": penalty, "precisions": precisions}
    orders, halvings = 4, 0
    for n in range(4):
        if totals[n] == 0:
            break
        if effective_order:
            orders = n + 1
        if matches[n] > 0:
            precisions[n] = 100 * matches[n] / totals[n]
        elif smooth:
            halvings += 1
            precisions[n] = 100 / (2 ** halvings * totals[n])
    used = precisions[:orders]
    mean = 0.0 if min(used) == 0 else math.exp(sum(map(math.log, used)) / orders)
    return {"bleu": penalty * mean, "brevity_penalty": penalty, "precisions": precisions}


# ---- chrF ----------------------------------------------------------------------------------------


def chrf_words(line):
    """Words with one ASCII punctuation mark taken off: the last character, or else the first."""
    words = []
    for word in line.split():
        if len(word) > 1 and word[-1] in string.punctuation:
            words += [word[:-1], word[-1]]
        elif len(word) > 1 and word[0] in string.punctuation:
            words += [word[0], word[1:]]
        else:
            words.append(word)
    return words


def chrf_counts(hypothesis, reference, word_order):
    """For each order [n-grams, n-grams of the reference, matches]"""
    counts = []
    for split, orders in ((lambda line: "".join(line.split()), 6), (chrf_words, word_order)):
        for n in range(1, orders + 1):
            h, r = ngrams(split(hypothesis), n), ngrams(split(reference), n)
            counts.append([sum(h.values()) if r else 0, sum(r.values()), sum((h & r).values())])
    return counts


def chrf(counts, beta):
    shares = [(m / h, m / r) for h, r, m in counts if h and r]
    if not shares:
        return 0.0
    precision, recall = (sum(column) / len(shares) for column in zip(*shares))
    if precision + recall == 0:
        return 0.0
    return 100 * (1 + beta ** 2) * precision * recall / (beta ** 2 * precision + recall)


def chrf_statistics(hypothesis, references, word_order, beta, lower):
    """Those of the reference that scores best."""
    if lower:
        hypothesis, references = hypothesis.lower(), [r.lower() for r in references]
    candidates = [chrf_counts(hypothesis, r, word_order) for r in references if r]
    return max(candidates, key=lambda counts: chrf(counts, beta))


# ---- Corpora -------------------------------------------------------------------------------------


def invented(count, seed):
    """Sentences of made-up words, and hypotheses that change, drop and add some."""
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

SETTINGS = [
    {"tokenization": tokenization, "smooth": smooth, "lower_case": lower}
    for tokenization in ("13a", "none") for smooth in (True, False) for lower in (False, True)
]


def total(rows):
    return [sum(column) for column in zip(*rows)]


def scores_of(pairs):
    found = []
    for setting in SETTINGS:
        tokenize = tokenize_13a if setting["tokenization"] == "13a" else str.split
        rows = [bleu_statistics(h, r, tokenize, setting["lower_case"]) for h, r in pairs]
        found.append({**setting, **bleu(total(rows), setting["smooth"], False), "statistics": total(rows),
                      "sentences": [bleu(row, setting["smooth"], True)["bleu"] for row in rows]})
    return found


def chrf_of(pairs):
    found = []
    for words, beta, lower in ((0, 2, False), (2, 2, False), (0, 2, True), (2, 1, False)):
        rows = [chrf_statistics(h, r, words, beta, lower) for h, r in pairs]
        corpus = [total(order) for order in zip(*rows)]
        found.append({"words": words, "beta": beta, "lower_case": lower, "chrf": chrf(corpus, beta),
                      "sentences": [chrf(row, beta) for row in rows]})
    return found


def main():
    cases = [{"name": name, "hypotheses": [h for h, _ in pairs], "references": [r for _, r in pairs],
              "tokens": [tokenize_13a(h.rstrip()) for h, _ in pairs], "bleu": scores_of(pairs), "chrf": chrf_of(pairs)}
             for name, pairs in CORPORA.items()]
    path = pathlib.Path(__file__).with_name("bleu.json")
    path.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
