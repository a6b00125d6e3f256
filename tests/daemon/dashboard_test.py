#!/usr/bin/env python3
"""Every metric that deploy/grafana-dashboard.json and deploy/alerts.yml ask for is one that the daemon tells."""
import json
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
told = set(re.findall(r'"((?:antiphon|process)_[a-z_]+)"', (root / "daemon/service_metrics.cc").read_text()))
dashboard = json.loads((root / "deploy/grafana-dashboard.json").read_text())
asked = [t["expr"] for p in dashboard["panels"] for t in p["targets"]]
asked.append((root / "deploy/alerts.yml").read_text())
names = set(re.findall(r"\b(?:antiphon|process)_[a-z_]+\b", " ".join(asked)))
unknown = {n for n in names if n not in told and re.sub(r"_(bucket|sum|count)$", "", n) not in told}
sys.exit(f"unknown metrics: {sorted(unknown)}" if unknown or not names else 0)
