"""Takes the picture: from the records of ELBv2, EC2 and ACM to `model`."""

from collections.abc import Iterator

from moto.acm.models import AWS_ROOT_CA, CertificateNotFound, acm_backends
from moto.elbv2.models import FakeLoadBalancer, elbv2_backends

from .. import fleet as fleets
from .. import records, settings
from ..fleet import Fleet
from .model import Balancer, Group, Listener, Rule, Snapshot, Target


def snapshot() -> Snapshot:
    """Reads the present objects of the accounts with traffic."""
    found: list[Balancer] = []
    for account, regions in list(elbv2_backends.items()):
        if settings.of(account).traffic:
            for region in list(regions):
                found.extend(_balancers(fleets.of(account, region)))
    return Snapshot(tuple(found))


def _balancers(fleet: Fleet) -> Iterator[Balancer]:
    with fleet.lock:
        for balancer in fleet.balancers():
            if balancer.listeners and balancer.type == "application":
                yield _balancer(fleet, balancer)


def _balancer(fleet: Fleet, balancer: FakeLoadBalancer) -> Balancer:
    listeners: list[records.Listener] = sorted(balancer.listeners.values(), key=lambda it: it.port)
    used = {arn for listener in listeners for rule in listener.in_order() for arn in rule.forwards_to()}
    groups = [fleet.target_group(arn) for arn in sorted(used)]
    return Balancer(
        account=fleet.account,
        region=fleet.region,
        arn=balancer.arn,
        name=balancer.name,
        dns_name=balancer.dns_name,
        attributes=dict(balancer.attrs),
        listeners=tuple(_listener(fleet, it) for it in listeners),
        groups=tuple(_group(fleet, it) for it in groups if it),
    )


def _listener(fleet: Fleet, listener: records.Listener) -> Listener:
    certificates = (_certificate(fleet, arn) for arn in listener.certificates)
    rules = (
        Rule(tuple(it.conditions), tuple(it.actions), tuple(it.transforms), it.client_secret)
        for it in listener.in_order()
    )
    return Listener(
        protocol=listener.protocol,
        port=listener.port,
        ssl_policy=listener.ssl_policy or "",
        certificates=tuple(pem for pem in certificates if pem),
        attributes=dict(listener.attributes),
        rules=tuple(rules),
    )


def _certificate(fleet: Fleet, arn: str) -> bytes | None:
    """The certificate, its chain and key. One of IAM's, or one deleted meanwhile, is left out."""
    try:
        bundle = acm_backends[fleet.account][fleet.region].get_certificate(arn)
    except CertificateNotFound:
        return None
    # moto ends every chain with a root of Amazon's that signed nothing here.
    chain = bundle.chain.replace(AWS_ROOT_CA, b"")
    return b"\n".join(part.strip() for part in (bundle.cert, chain, bundle.key)) + b"\n"


def _group(fleet: Fleet, group: records.TargetGroup) -> Group:
    return Group(
        arn=group.arn,
        account=fleet.account,
        region=fleet.region,
        target_type=group.target_type,
        protocol=group.protocol or "HTTP",
        protocol_version=group.protocol_version or "HTTP1",
        health=dict(group.health_check),
        attributes=dict(group.attributes),
        targets=tuple(_targets(fleet, group)),
    )


def _targets(fleet: Fleet, group: records.TargetGroup) -> Iterator[Target]:
    for target in group.targets.values():
        address = target.id
        if group.target_type == "instance":
            instance = fleet.network.get_instance_by_id(target.id)
            if instance is None or instance.state != "running":
                continue
            address = instance.private_ip
        if group.target_type in ("instance", "ip"):
            yield Target(target.id, target.port, address, target.registered)
