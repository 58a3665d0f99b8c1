"""Writes what a rank was given into rank-<r>.report.json of its working folder."""

import json
import os
import sys

with open("rank-{}.report.json".format(os.environ["RANK"]), "w", encoding="utf-8") as stream:
    json.dump({"argv": sys.argv, "env": dict(os.environ), "cwd": os.getcwd(), "files": sorted(os.listdir("."))}, stream)
print("report of rank", os.environ["RANK"])
