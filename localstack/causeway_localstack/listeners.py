"""The operations on listeners, their certificates and attributes."""

import secrets
from typing import Any

from localstack.aws.api import RequestContext, ServiceRequest, ServiceResponse
from moto.elbv2.models import FakeLoadBalancer

from . import actions, known, ssl_policies
from . import fleet as fleets
from .errors import invalid, validation
from .fleet import Fleet
from .pages import page
from .records import DEFAULT, Document, Listener, Rule
from .rules import certificates, forwarding, listener_attributes, listeners, tags

_SECURE = ("HTTPS", "TLS")


def create(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """CreateListener. A taken port answers with its listener if all settings are equal; tags are no setting.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateListener.html
    """
    fleet = fleets.of_caller(context)
    wanted_tags = request.get("Tags") or []
    tags.lawful_at_creation(wanted_tags)
    with fleet.lock:
        balancer = known.balancer(fleet, request["LoadBalancerArn"])
        listener = _new(fleet, balancer, request)
        for other in balancer.listeners.values():
            if _settings(other) == _settings(listener):
                return {"Listeners": [_shown(other)]}
        listeners.free_port(balancer, listener.port)
        listeners.room_for_a_listener(balancer)
        forwarding.target_groups_fit(fleet, balancer, listener.protocol, listener.default_rule.actions)
        balancer.listeners[listener.arn] = listener
        fleet.enforce(listener.default_rule, before=set())
        if wanted_tags:
            fleet.backend.tagging_service.tag_resource(listener.arn, wanted_tags)
    return {"Listeners": [_shown(listener)]}


def modify(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """ModifyListener: replaces what is named; a listener that turns to HTTP loses what only HTTPS has.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_ModifyListener.html
    """
    fleet = fleets.of_caller(context)
    with fleet.lock:
        listener = known.listener(fleet, request["ListenerArn"])
        balancer = known.balancer(fleet, listener.load_balancer_arn)
        port, protocol = request.get("Port") or listener.port, request.get("Protocol") or listener.protocol
        listeners.lawful_port_and_protocol(balancer, port, protocol)
        if port != listener.port:
            listeners.free_port(balancer, port)
        for rule in listener.others.values():
            actions.fits_listener(rule.actions, protocol)
        changes = _secure_settings(fleet, protocol, request, listener) | {"port": port, "protocol": protocol}
        rule = listener.default_rule
        if request.get("DefaultActions"):
            settled = actions.settled(request["DefaultActions"], protocol, port, rule.client_secret)
        else:
            actions.fits_listener(rule.actions, protocol)
            settled = actions.Settled(rule.actions, rule.client_secret)
        forwarding.target_groups_fit(fleet, balancer, protocol, settled.actions, rule)
        if request.get("AlpnPolicy"):
            changes["alpn_policy"] = list(request["AlpnPolicy"])
        for name, value in changes.items():
            setattr(listener, name, value)
        before = rule.forwards_to()
        rule.actions, rule.client_secret = settled.actions, settled.client_secret
        fleet.enforce(rule, before)
    return {"Listeners": [_shown(listener)]}


def delete(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DeleteListener: with its rules."""
    fleet = fleets.of_caller(context)
    with fleet.lock:
        listener = known.listener(fleet, request["ListenerArn"])
        remove(fleet, known.balancer(fleet, listener.load_balancer_arn), listener)
    return {}


def remove(fleet: Fleet, balancer: FakeLoadBalancer, listener: Listener) -> None:
    """Takes a listener and its rules away."""
    for rule in listener.in_order():
        fleet.drop(rule)
    fleet.backend.tagging_service.delete_all_tags_for_resource(listener.arn)
    del balancer.listeners[listener.arn]


def describe(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DescribeListeners: of a load balancer, in pages, or by ARN."""
    fleet = fleets.of_caller(context)
    parent, arns = request.get("LoadBalancerArn"), request.get("ListenerArns") or []
    if bool(parent) == bool(arns):
        raise validation("You must specify either listener ARNs or a load balancer ARN")
    tags.twenty_at_once(request, "ListenerArns")
    if parent:
        balancer = known.balancer(fleet, parent)
        if not fleet.is_visible(fleet.birth(balancer).at):
            raise known.not_found(parent)
        found = [listener for listener in list(balancer.listeners.values()) if fleet.is_visible(listener.born)]
    else:
        found = [known.listener(fleet, arn) for arn in arns]
        missing = [listener.arn for listener in found if not fleet.is_visible(listener.born)]
        if missing:
            raise known.not_found(*missing)
    found, marker = page(request, found, lambda listener: f"{listener.load_balancer_arn} {listener.port:05}")
    return {"Listeners": [_shown(it) for it in found]} | ({"NextMarker": marker} if marker else {})


def add_certificates(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """AddListenerCertificates: one certificate, which may be in the list already, and may be the default one.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_AddListenerCertificates.html
    """
    fleet = fleets.of_caller(context)
    with fleet.lock:
        listener = known.listener(fleet, request["ListenerArn"])
        if listener.protocol not in _SECURE:
            raise validation(f"Certificates cannot be specified for {listener.protocol} listeners")
        arns = certificates.one_at_a_time(request["Certificates"])
        certificates.usable(fleet, arns)
        more = [arn for arn in dict.fromkeys(arns) if arn not in listener.certificates[1:]]
        certificates.room(known.balancer(fleet, listener.load_balancer_arn), len(more))
        listener.certificates.extend(more)
        return {"Certificates": [{"CertificateArn": arn, "IsDefault": False} for arn in arns]}


def remove_certificates(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """RemoveListenerCertificates: one of the list; one that is not there is fine, but for the default one.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_RemoveListenerCertificates.html
    AWS's words: https://github.com/hashicorp/terraform-provider-aws/issues/19495
    """
    fleet = fleets.of_caller(context)
    with fleet.lock:
        listener = known.listener(fleet, request["ListenerArn"])
        arns = certificates.one_at_a_time(request["Certificates"])
        default, others = listener.certificates[:1], listener.certificates[1:]
        if any(arn in arns and arn not in others for arn in default):
            raise invalid("OperationNotPermitted", "Default certificate cannot be removed")
        listener.certificates = [*default, *(arn for arn in others if arn not in arns)]
    return {}


def describe_certificates(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DescribeListenerCertificates: the default one and the list, in pages; one that is both comes twice.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_DescribeListenerCertificates.html
    """
    fleet = fleets.of_caller(context)
    listener = known.listener(fleet, request["ListenerArn"])
    ranked = list(enumerate(listener.certificates))
    found, marker = page(request, ranked, lambda it: f"{it[0]:03}")
    answer = [{"CertificateArn": arn, "IsDefault": number == 0} for number, arn in found]
    return {"Certificates": answer} | ({"NextMarker": marker} if marker else {})


def describe_attributes(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DescribeListenerAttributes."""
    listener = known.listener(fleets.of_caller(context), request["ListenerArn"])
    return {"Attributes": _attributes(listener)}


def modify_attributes(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """ModifyListenerAttributes: changes what is named, answers with all."""
    fleet = fleets.of_caller(context)
    with fleet.lock:
        listener = known.listener(fleet, request["ListenerArn"])
        changes = {it["Key"]: it.get("Value") or "" for it in request["Attributes"]}
        listener_attributes.lawful(changes, listener.protocol)
        listener.attributes.update(changes)
        return {"Attributes": _attributes(listener)}


def _new(fleet: Fleet, balancer: FakeLoadBalancer, request: ServiceRequest) -> Listener:
    port, protocol = request.get("Port"), request.get("Protocol")
    listeners.lawful_port_and_protocol(balancer, port, protocol)
    arn = f"{balancer.arn.replace(':loadbalancer/', ':listener/')}/{secrets.token_hex(8)}"
    settled = actions.settled(request.get("DefaultActions") or [], protocol, port)
    return Listener(
        arn=arn,
        load_balancer_arn=balancer.arn,
        protocol=protocol,
        port=port,
        default_rule=Rule(
            arn=f"{arn.replace(':listener/', ':listener-rule/')}/{secrets.token_hex(8)}",
            listener_arn=arn,
            priority=DEFAULT,
            conditions=[],
            actions=settled.actions,
            client_secret=settled.client_secret,
        ),
        alpn_policy=list(request.get("AlpnPolicy") or []),
        **_secure_settings(fleet, protocol, request, None),
    )


def _secure_settings(fleet: Fleet, protocol: str, request: ServiceRequest, listener: Listener | None) -> dict[str, Any]:
    """Settings of secure listeners only: certificate, policy and mutual authentication; as it is, or as asked for."""
    if request.get("AlpnPolicy") and protocol != "TLS":
        raise validation(f"An ALPN policy cannot be specified for {protocol} listeners")
    asked = request.get("Certificates") or []
    if protocol not in _SECURE:
        for name in ("SslPolicy", "MutualAuthentication"):
            if request.get(name):
                raise validation(f"{name} cannot be specified for {protocol} listeners")
        certificates.default_certificate(fleet, protocol, asked)
        return {"certificates": [], "ssl_policy": None, "mutual_authentication": None}
    held = listener.certificates if listener else []
    default = certificates.default_certificate(fleet, protocol, asked) if asked or not held else held[:1]
    policy = request.get("SslPolicy") or (listener and listener.ssl_policy) or ssl_policies.DEFAULT
    ssl_policies.check(policy)
    mutual = listener.mutual_authentication if listener else None
    if request.get("MutualAuthentication") or not mutual:
        mutual = listeners.mutual_authentication(fleet, request.get("MutualAuthentication"))
    return {"certificates": [*default, *held[1:]], "ssl_policy": policy, "mutual_authentication": mutual}


def _settings(listener: Listener) -> tuple[Any, ...]:
    return (
        listener.port,
        listener.protocol,
        listener.ssl_policy,
        listener.certificates[:1],
        listener.mutual_authentication,
        listener.alpn_policy,
        listener.default_rule.actions,
        listener.default_rule.client_secret,
    )


def _attributes(listener: Listener) -> list[dict[str, str]]:
    values = listener_attributes.defaults(listener.protocol) | listener.attributes
    return [{"Key": key, "Value": value} for key, value in sorted(values.items())]


def _shown(listener: Listener) -> Document:
    answer: Document = {
        "ListenerArn": listener.arn,
        "LoadBalancerArn": listener.load_balancer_arn,
        "Port": listener.port,
        "Protocol": listener.protocol,
        "DefaultActions": listener.default_rule.actions,
    }
    if listener.protocol in _SECURE:
        answer["Certificates"] = [{"CertificateArn": arn} for arn in listener.certificates[:1]]
        answer["SslPolicy"] = listener.ssl_policy
        answer["MutualAuthentication"] = listener.mutual_authentication
    if listener.alpn_policy:
        answer["AlpnPolicy"] = listener.alpn_policy
    return answer
