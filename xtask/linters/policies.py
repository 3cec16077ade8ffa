"""Prints what parliament and cloudsplaining find in IAM policies, each finding as a line of JSON.

Usage: policies.py FILE…
"""

import json
import pathlib
import re
import sys

import parliament
from cloudsplaining.scan.policy_document import PolicyDocument

# The values that an administrator puts in the place of the placeholders, and AWS in that of its variable.
VALUES = {
    "${ACCOUNT_ID}": "111122223333",
    "${AWS_REGION}": "eu-central-1",
    "${CLUSTER_NAME}": "prod",
    "${NAMESPACE}": "shop",
    "${OIDC_PROVIDER}": "oidc.eks.eu-central-1.amazonaws.com/id/0123456789ABCDEF0123456789ABCDEF",
    "${aws:PrincipalTag/kubernetes-namespace}": "shop",
}
COMMUNITY = pathlib.Path(parliament.__file__).parent / "community_auditors/config_override.yaml"


def findings(text, path):
    return parliament.analyze_policy_string(text, path, include_community_auditors=True).findings


def without(text, unknown):
    """The policy without the actions that are unknown."""
    words = " ".join(f"{finding.detail} {finding.location}" for finding in unknown)
    policy = json.loads(text)
    for statement in policy["Statement"]:
        if isinstance(statement["Action"], list):
            statement["Action"] = [action for action in statement["Action"] if action not in words]
    return json.dumps(policy, indent=2)


def of_parliament(text, path):
    """Wrong actions, conditions and ARNs, and rights that lead to others: (rule, action or ARN, why)."""
    found = findings(text, path)
    unknown = [finding for finding in found if finding.issue == "UNKNOWN_ACTION"]
    if unknown:
        # It looks no further at a policy with an action that it does not know.
        found = unknown + findings(without(text, unknown), path)
    for finding in map(parliament.enhance_finding, found):
        location, detail = finding.location, finding.detail
        why = f"{finding.title}, line {location.get('line', '?')}"
        # One finding for each action, so that an exception for one hides no other.
        if isinstance(detail, list):
            for each in detail:
                yield finding.issue, each["action"] if isinstance(each, dict) else each, f"{why}: {each}"
            continue
        named = re.findall(r"\b[a-z0-9-]+:[A-Z]\w+", detail)
        for what in location.get("actions") or ("string" in location and [location["string"]]) or named or [""]:
            yield finding.issue, what, f"{why}: {detail or location}"


def of_cloudsplaining(policy):
    """Lists rights without a condition, be it only on some resources: (rule, action, why)."""
    document = PolicyDocument(policy, flag_resource_arn_statements=True)
    found = {
        "ServiceWildcard": document.service_wildcard,
        "InfrastructureModification": document.infrastructure_modification,
        "CredentialsExposure": document.credentials_exposure,
        "DataExfiltration": document.allows_data_exfiltration_actions,
        "PrivilegeEscalation": [method["type"] for method in document.allows_privilege_escalation],
        "ResourceExposure": document.permissions_management_without_constraints,
    }
    for rule, whats in found.items():
        for what in whats:
            yield rule, what, "allowed without a condition"


def main():
    parliament.override_config(COMMUNITY)
    for path in map(pathlib.Path, sys.argv[1:]):
        text = path.read_text()
        for placeholder, value in VALUES.items():
            text = text.replace(placeholder, value)
        policy = json.loads(text)
        findings = {"parliament": of_parliament(text, str(path))}
        # It takes a role's trust for a permission of all users.
        if not any("Principal" in statement for statement in policy["Statement"]):
            findings["cloudsplaining"] = of_cloudsplaining(policy)
        for linter, found in findings.items():
            for rule, what, why in found:
                about = f"{path.name}:{what}" if what else path.name
                print(json.dumps({"linter": linter, "rule": rule, "object": about, "why": why}))


main()
