"""Adds up all tests of a `meson test` run: the test cases that doctest counts, and one for every
other program. Prints what was skipped, and then `N passed, N failed`; exits with 1 when any failed
or none ran.
"""
import json
import re
import sys

DOCTEST = re.compile(r"\[doctest\] test cases:\s*(\d+) \|\s*(\d+) passed \|\s*(\d+) failed")


def main():
    passed = failed = 0
    with open(sys.argv[1], encoding="utf-8") as log:
        for line in log:
            test = json.loads(line)
            if test["result"] == "SKIP":
                print(f"skipped: {test['name']}: {test.get('stdout', '').strip()}")
                continue
            ok = test["result"] == "OK"
            counts = DOCTEST.search(test.get("stdout", ""))
            if counts:
                passed += int(counts[2])
                failed += int(counts[3])
                failed += not ok and int(counts[3]) == 0  # it ended badly after its last test case
            else:
                passed += ok
                failed += not ok
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
