"""Tests examples/dates/dates_tsv: dates in the formats of all locales. Checks calendar, weekdays and digits
against Python's own.

Run with the program.
"""
import datetime
import os
import re
import subprocess
import sys
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))


def run(*arguments, **environment):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, **environment})


def rows(*arguments, **environment):
    """The (source, date) of each line."""
    result = run(*arguments, **environment)
    assert result.returncode == 0 and not result.stderr, result.stderr
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    return [(source, datetime.date.fromisoformat(target)) for source, target in lines]


def numbers(text):
    """The numbers in a text, in digits of any script."""
    return {int(digits) for digits in re.findall(r"\d+", text)}


def english(day):
    """As written, the fourteen patterns; MMMM d, y is the LONG style again. None has the week's year."""
    month, short, weekday = day.strftime("%B"), day.strftime("%b"), day.strftime("%A")
    d, dd, mm, y, yy = day.day, f"{day.day:02}", f"{day.month:02}", day.year, f"{day.year % 100:02}"
    return [f"{day.month}/{d}/{yy}", f"{short} {d}, {y}", f"{month} {d}, {y}", f"{weekday}, {month} {d}, {y}",
            f"{d} {short} {y}", f"{d} {month} {y}", f"{dd} {short} {y}", f"{d} {short}, {y}", f"{d} {month}, {y}",
            f"{dd}, {short} {y}", f"{d} {mm} {yy}", f"{month} {d} {y}", f"{dd}.{mm}.{yy}"]


class DatesTsv(unittest.TestCase):
    def near(self, count, expected):
        """Checks that a binomial count is within five standard deviations."""
        self.assertLess(abs(count - expected), 5 * expected ** 0.5, (count, expected))

    def test_english_has_fourteen_patterns_each_in_six_variants_and_nothing_else(self):
        letters = (str, str.upper, str.lower)
        seen = set()
        for source, day in rows("en", 60000):
            ways = {}  # some are spelt alike, such as "5 Mar 2004" and "5 Mar, 2004" without its comma
            for pattern, text in enumerate(english(day)):
                for i, letter in enumerate(letters):
                    ways.setdefault(letter(text), set()).add((pattern, i, True))
                    ways.setdefault(letter(text).replace(",", ""), set()).add((pattern, i, False))
            self.assertIn(source, ways)
            seen |= ways[source]
        self.assertEqual(len(seen), 13 * 6)

    def test_known_dates_of_several_locales(self):
        for locale, expected, never in (
                ("de", ["Dienstag, 9. März 1999", "DIENSTAG 9. MÄRZ 1999", "9. märz 1999", "09.03.99"], []),
                ("fr", ["mercredi 27 juin 2001", "27 JUIN 2001", "27/06/2001", "juin 27, 2001"], []),
                ("es", ["miércoles, 27 de junio de 2001", "MIÉRCOLES 27 DE JUNIO DE 2001", "27/6/01"], []),
                ("ja", ["2001年6月27日水曜日", "2001/06/27", "27 6月 2001"], ["平成"]),
                ("th", ["27 มิถุนายน 2001"], ["2544"]),  # 2001 + 543, the Buddhist year
                ("fa", ["۲۷ ژوئن ۲۰۰۱", "27 ژوئن 2001"], ["۱۳۸۰"]),  # the Persian year 1380
                ("ar", ["الأربعاء، ٢٧ يونيو ٢٠٠١", "الأربعاء 27 يونيو 2001", "٢٧.٠٦.٠١"], []),
                ("hi", ["27.06.01"], ["२"]),  # its digits are Latin
                ("tr", ["27 HAZİRAN 2001", "27 haziran 2001"], ["HAZIRAN"]),  # the dot of the i stays
                ("el", ["27 Ιουνίου 2001", "27 ΙΟΥΝΙΟΥ 2001"], ["ΙΟΎΝΊΟΥ"]),  # without the accent
                ("zh_TW", ["2001年6月27日 星期三"], []),  # the older name of zh_Hant_TW
                ("ur", ["بدھ، 27 جون، 2001", "بدھ 27 جون 2001"], [])):  # other scripts lose their commas, too
            sources = [source for source, _ in rows(locale, 60000)]
            shapes = {re.sub(r"\d+", "#", source) for source in sources}
            for text in expected:
                self.assertIn(re.sub(r"\d+", "#", text), shapes, locale)
            for text in never:
                self.assertFalse([source for source in sources if text in source], locale)

    def test_numbers_are_those_of_the_gregorian_date_in_every_locale(self):
        seen = 0
        for source, day in rows("all", 60000):
            found = numbers(source)
            year = {day.year, day.year % 100} & found
            self.assertTrue(day.day in found and year, (source, day))
            # Meta' (mgo) numbers its weekdays: Monday is Aneg 2.
            strange = found - {day.day, day.month, day.year, day.year % 100}
            self.assertTrue(not strange or "neg" in source.lower() and len(strange) == 1, (source, day))
            self.assertFalse("M01" in source.upper() or "\ufffd" in source, source)  # a locale without month names
            seen += len(found) == 3 and day.month in found
        self.assertGreater(seen, 10000)

    def test_lines_depend_only_on_seed_and_locales(self):
        first = rows("en,ar,ja", 300)
        away = {"TZ": "Pacific/Kiritimati", "LC_ALL": "ar_EG.UTF-8", "LANG": "ar_EG.UTF-8"}
        self.assertEqual(first, rows("en,ar,ja", 300, **away))
        self.assertEqual(first, rows("en,ar,ja", 500)[:300])
        self.assertNotEqual(first, rows("en,ar,ja", 300, 2))

    def test_held_out_days_occur_in_no_other_lines(self):
        held_out = {day for _, day in rows("en", 40000, "held-out")}
        others = {day for _, day in rows("en,de", 200000, 3)}
        self.assertEqual(len(held_out), 2283)  # 36525 / 16
        self.assertFalse(held_out & others)
        # Of 34242 days, 200,000 draws reach 34242 (1 - exp(-200000 / 34242)) = 34142, with a deviation of 10.
        self.assertLess(abs(len(others) - 34142), 50)
        self.assertGreaterEqual(min(others), datetime.date(1970, 1, 1))
        self.assertLessEqual(max(others), datetime.date(2069, 12, 31))

    def test_locales_digits_patterns_and_letters_are_equally_frequent(self):
        lines = [source for source, _ in rows("bn,en", 56000)]
        native = sum(bool(re.search("[০-৯]", source)) for source in lines)
        self.near(native, 14000)  # half of the lines in Bengali
        full = [source for source in lines if re.search("day", source.lower())]
        self.near(len(full), 2000)  # a fourteenth of the lines in English
        self.near(sum(map(str.isupper, full)), len(full) / 3)
        self.near(sum(map(str.islower, full)), len(full) / 3)
        self.near(sum("," in source for source in full), len(full) / 2)

    def test_errors_are_one_line(self):
        usage = "usage: dates_tsv LOCALES COUNT [held-out] [SEED] > FILE.tsv"
        for arguments, message in (([], usage), (["en"], usage), (["en", "-1"], usage), (["en", "x"], usage),
                                   (["en", "1", "2", "3"], usage),
                                   (["en,xx", "1"], "LOCALES: 'xx' is repeated or not a locale of ICU"),
                                   (["de-at,de_AT", "1"], "LOCALES: 'de_AT' is repeated or not a locale of ICU")):
            result = run(*arguments)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (1, "", f"dates_tsv: {message}\n"))
        for locale in ("", "en_XX", "english", "root", "C", "en_US.UTF-8", "en@calendar=buddhist", "en;de", "en de",
                       "\udcff", "en,,de", "x" * 1000):
            self.assertEqual(run(locale, 1).returncode, 1, locale)

    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([PROGRAM, "en", "100"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual((result.returncode, result.stderr), (1, "dates_tsv: standard output: cannot be written\n"))


if __name__ == "__main__":
    unittest.main()
