"""Certificates of listeners."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cryptography.x509 import DNSName, ExtensionNotFound, SubjectAlternativeName
from cryptography.x509.oid import NameOID
from moto.acm.models import CertBundle, acm_backends
from moto.elbv2.models import FakeLoadBalancer
from moto.iam.models import iam_backends

from .. import settings
from ..errors import invalid, validation
from ..fleet import Fleet
from ..identity import account_of

_FULL_NAME = re.compile(r"(\*\.)?([A-Za-z0-9_-]+\.)+[A-Za-z0-9-]+\.?", re.ASCII)
"""A host of a domain, or all hosts of one: `*` stands for a label and is no name by itself.
https://docs.aws.amazon.com/acm/latest/userguide/acm-concepts.html#concept-fqdn"""


def default_certificate(fleet: Fleet, protocol: str, asked: Sequence[Mapping[str, Any]]) -> list[str]:
    """The ARN of the default certificate: HTTPS listeners have exactly one, others none.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateListener.html
    """
    arns = named(asked)
    if protocol not in ("HTTPS", "TLS"):
        if arns:
            raise validation(f"Certificates cannot be specified for {protocol} listeners")
        return []
    if not arns:
        raise validation(f"A certificate must be specified for {protocol} listeners")
    if len(arns) > 1:
        raise validation("Exactly one default certificate must be specified")
    usable(fleet, arns)
    return arns


def named(asked: Sequence[Mapping[str, Any]]) -> list[str]:
    """The ARNs of certificates in a request, where IsDefault must not be set."""
    if any(certificate.get("IsDefault") is not None for certificate in asked):
        raise validation("You cannot set IsDefault for a certificate")
    arns = [certificate.get("CertificateArn") or "" for certificate in asked]
    if not all(arns):
        raise validation("A certificate ARN must be specified")
    return arns


def one_at_a_time(asked: Sequence[Mapping[str, Any]]) -> list[str]:
    """The ARN in a request that changes a listener's list: "You can specify one certificate per call."

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_AddListenerCertificates.html
    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_RemoveListenerCertificates.html
    """
    arns = named(asked)
    if len(arns) != 1:
        raise validation("You can specify one certificate per call")
    return arns


def usable(fleet: Fleet, arns: Iterable[str]) -> None:
    """Certificates are issued ones of the account's ACM in the region, or of its IAM, for a name with a domain.

    AWS's words: https://github.com/crossplane-contrib/provider-upjet-aws/issues/338
    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/https-listener-certificates.html
    """
    of_acm = acm_backends[fleet.account][fleet.region]._certificates
    of_iam = iam_backends[fleet.account]["aws"]
    for arn in arns:
        certificate = of_acm.get(arn)
        if certificate is None and of_iam.get_certificate_by_arn(arn) is None:
            raise invalid("CertificateNotFound", f"Certificate '{arn}' not found")
        if certificate and (certificate.status != "ISSUED" or not _has_a_full_name(certificate)):
            raise invalid(
                "UnsupportedCertificate",
                f"The certificate '{arn}' must have a fully-qualified domain name, a supported signature, "
                "and a supported key size",
            )


def room(balancer: FakeLoadBalancer, more: int) -> None:
    """Else TooManyCertificates; default certificates do not count.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html
    """
    most = settings.of(account_of(balancer.arn)).certificates_per_balancer
    held = sum(max(len(listener.certificates) - 1, 0) for listener in balancer.listeners.values())
    if held + more > most:
        raise invalid("TooManyCertificates", f"The maximum number of certificates has been reached ({most})")


def _has_a_full_name(certificate: CertBundle) -> bool:
    names = [str(it.value) for it in certificate._cert.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    try:
        others = certificate._cert.extensions.get_extension_for_class(SubjectAlternativeName).value
        names += others.get_values_for_type(DNSName)
    except ExtensionNotFound:
        pass
    return any(_FULL_NAME.fullmatch(name) for name in names)
