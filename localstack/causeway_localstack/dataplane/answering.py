"""Actions of rules: what a listener answers itself, and which target group gets the rest.

https://docs.aws.amazon.com/elasticloadbalancing/latest/application/rule-action-types.html
"""

import hashlib
import re

from .authentication.gate import authentication, key
from .model import Balancer, Document, Group, Listener, Rule
from .text import literal, quoted

GROUP_COOKIE = "AWSALBTG"
"""https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-target-group-attributes.html"""


def directives(balancer: Balancer, listener: Listener, rule: Rule, gate: str, condition: str) -> list[str]:
    """The effect of a rule's actions on requests that meet the condition; its gate decides who may continue."""
    groups = {group.arn: group for group in balancer.groups}
    lines = []
    if authentication(rule):
        lines.append(f"http-request lua.authenticate {gate} {key(balancer, rule)} if {condition}")
    elif len(rule.actions) > 1:
        return [unable(f"actions of type {rule.actions[0]['Type']}", condition)]
    last = rule.actions[-1]
    match last["Type"]:
        case "fixed-response":
            return [*lines, _fixed_response(last["FixedResponseConfig"], condition)]
        case "redirect":
            return [*lines, *_redirect(listener, last["RedirectConfig"], condition)]
        case "forward":
            return [*lines, *_forward(groups, last["ForwardConfig"], condition)]
        case kind:
            return [unable(f"actions of type {kind}", condition)]


def unable(what: str, condition: str) -> str:
    """Says to the client what it would get from AWS only."""
    said = quoted(f"The local data plane does not do this: {what}.\n")
    return f"http-request return status 501 content-type text/plain string {said} if {condition}"


def _fixed_response(config: Document, condition: str) -> str:
    """An answer with status 204 has no body: https://www.rfc-editor.org/rfc/rfc9110#name-204-no-content"""
    content = ""
    if config.get("MessageBody") and config["StatusCode"] != "204":
        kind = f"{config.get('ContentType') or 'text/plain'}; charset=utf-8"
        content = f" content-type {quoted(kind)} string {quoted(config['MessageBody'])}"
    return f"http-request return status {config['StatusCode']}{content} if {condition}"


def _redirect(listener: Listener, config: Document, condition: str) -> list[str]:
    """The location always names the port, as AWS's does. An empty query leaves no question mark."""
    keywords = {
        "protocol": listener.protocol.lower(),
        "port": str(listener.port),
        "host": "%[var(txn.host)]",
        "path": "%[path,bytes(1)]",
        "query": "%[query]",
    }

    def filled(text: str) -> str:
        parts = re.split(r"#\{(\w+)\}", text)
        return "".join(keywords[part] if at % 2 else literal(part) for at, part in enumerate(parts))

    scheme, port = filled(config["Protocol"]).lower(), filled(config["Port"])
    location = f"{scheme}://{filled(config['Host'])}:{port}{filled(config['Path'])}"
    begin = f"http-request redirect code {config['StatusCode'].removeprefix('HTTP_')} location"
    query = config.get("Query") or ""
    if not query:
        return [f"{begin} {quoted(location)} if {condition}"]
    with_query = f"{begin} {quoted(f'{location}?{filled(query)}')} if {condition}"
    if query != "#{query}":
        return [with_query]
    return [f"{with_query} has-query", f"{begin} {quoted(location)} if {condition}"]


def _forward(groups: dict[str, Group], config: Document, condition: str) -> list[str]:
    """Draws one of the groups by their weights, unless a cookie tells which one it was before."""
    weights = [(groups[it["TargetGroupArn"]], it["Weight"]) for it in config["TargetGroups"] if it["Weight"]]
    if not weights:
        return []
    if any(group.target_type not in ("instance", "ip") for group, _ in weights):
        return [unable("targets that are no addresses", condition)]
    if len(weights) == 1:
        return [f"http-request set-var(txn.group) str({weights[0][0].backend}) if {condition}"]
    lines = []
    stickiness = config.get("TargetGroupStickinessConfig") or {}
    if stickiness.get("Enabled"):
        for group, _ in weights:
            known = f"{condition} {{ req.cook({GROUP_COOKIE}) -m str {_token(group)} }}"
            lines.append(f"http-request set-var(txn.group) str({group.backend}) if {known}")
    lines.append(f"http-request set-var(txn.draw) rand({sum(weight for _, weight in weights)}) if {condition}")
    below = 0
    for group, weight in weights:
        below += weight
        drawn = f"{condition} !has-group {{ var(txn.draw) -m int lt {below} }}"
        lines.append(f"http-request set-var(txn.group) str({group.backend}) if {drawn}")
    if stickiness.get("Enabled"):
        for group, _ in weights:
            chosen = f"{condition} {{ var(txn.group) -m str {group.backend} }}"
            lines.append(f"http-request set-var(txn.sticky) str({_token(group)}) if {chosen}")
        seconds = stickiness["DurationSeconds"]
        lines.append(f"http-request set-var(txn.sticky_seconds) int({seconds}) if {condition}")
    return lines


def _token(group: Group) -> str:
    return hashlib.sha256(group.arn.encode()).hexdigest()[:32]
