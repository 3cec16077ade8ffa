"""The operator knows the regions that botocore does."""

import json
import re
from pathlib import Path

import botocore

RUST = Path(__file__).parents[2] / "crates/backup/src/jobs/regions.rs"


def test_the_operator_knows_the_regions_of_botocore():
    endpoints = json.loads((Path(botocore.__file__).parent / "data/endpoints.json").read_text())
    regions = [region for partition in endpoints["partitions"] for region in partition["regions"]]
    source = RUST.read_text()
    assert re.findall(r'^ +"([a-z0-9-]+)",$', source, re.MULTILINE) == regions
    assert f"botocore {botocore.__version__}" in source
