# SPDX-License-Identifier: Apache-2.0
"""Compares the pixel room with what torch gave when resize_fixtures.tsv was made. `resize_recorded.py TOOL FILE`"""
import hashlib
import sys

import parity


def answer(tool, job):
    words = job.split()
    numbers = [int(word) for word in words[1:]]
    if words[0] == "write":
        return tool.write(*numbers)
    return tool.resize(words[0], *numbers).tobytes()


def main():
    tool, tap = parity.Tool(sys.argv[1]), parity.Tap()
    with open(sys.argv[2], encoding="ascii") as lines:
        for line in lines:
            if line.startswith("#"):
                print(line.rstrip())
                continue
            job, digest, first = line.rstrip("\n").split("\t")
            data = answer(tool, job)
            good = hashlib.sha256(data).hexdigest() == digest
            tap.ok(good, job if good else f"{job}: starts with {data[:8].hex()}, recorded {first}")
    tap.ok(tool.close() == 0, "the tool ended well")
    tap.done()


main()
