"""The operations on trust stores: the authorities whose clients listeners let in.

https://docs.aws.amazon.com/elasticloadbalancing/latest/application/mutual-authentication.html
"""

import re
import secrets
from typing import Any

from botocore.exceptions import ClientError
from cryptography.x509 import load_pem_x509_certificates
from localstack.aws.api import RequestContext, ServiceRequest, ServiceResponse
from localstack.aws.connect import connect_to

from . import fleet as fleets
from . import known
from .errors import invalid, validation
from .fleet import Fleet
from .pages import page
from .records import Document, TrustStore
from .rules import tags

MOST = 20
"""Per region: https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html"""


def create(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """CreateTrustStore, from a bundle of certificates in S3.

    https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateTrustStore.html
    """
    fleet = fleets.of_caller(context)
    name, wanted_tags = request["Name"], request.get("Tags") or []
    if len(name) > 32 or not re.fullmatch(r"([a-zA-Z0-9]+-)*[a-zA-Z0-9]+", name):
        raise validation(f"The trust store name '{name}' is not valid")
    tags.lawful_at_creation(wanted_tags)
    count = _certificates(fleet, request)
    with fleet.lock:
        if any(store.name == name for store in fleet.trust_stores.values()):
            raise invalid("DuplicateTrustStoreName", f"A trust store with the name '{name}' exists already")
        if len(fleet.trust_stores) >= MOST:
            raise invalid("TooManyTrustStores", f"The maximum number of trust stores has been reached ({MOST})")
        arn = f"arn:aws:elasticloadbalancing:{fleet.region}:{fleet.account}:truststore/{name}/{secrets.token_hex(8)}"
        store = fleet.trust_stores[arn] = TrustStore(arn, name, count)
        if wanted_tags:
            fleet.backend.tagging_service.tag_resource(arn, wanted_tags)
    return {"TrustStores": [_shown(store)]}


def modify(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """ModifyTrustStore: another bundle."""
    fleet = fleets.of_caller(context)
    count = _certificates(fleet, request)
    with fleet.lock:
        store = known.trust_store(fleet, request["TrustStoreArn"])
        store.certificates = count
    return {"TrustStores": [_shown(store)]}


def delete(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DeleteTrustStore: unless a listener uses it."""
    fleet = fleets.of_caller(context)
    with fleet.lock:
        store = known.trust_store(fleet, request["TrustStoreArn"])
        if list(_users(fleet, store)):
            raise invalid("TrustStoreInUse", f"Trust store '{store.arn}' is currently in use by a listener")
        del fleet.trust_stores[store.arn]
        fleet.backend.tagging_service.delete_all_tags_for_resource(store.arn)
    return {}


def describe(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DescribeTrustStores: by name, by ARN, or all in pages."""
    fleet = fleets.of_caller(context)
    arns, names = request.get("TrustStoreArns") or [], request.get("Names") or []
    tags.twenty_at_once(request, "TrustStoreArns")
    tags.twenty_at_once(request, "Names")
    stores = list(fleet.trust_stores.values())
    missing = (set(arns) - {it.arn for it in stores}) | (set(names) - {it.name for it in stores})
    if missing:
        raise invalid("TrustStoreNotFound", f"Trust stores '{', '.join(sorted(missing))}' not found")
    if arns or names:
        stores = [it for it in stores if it.arn in arns or it.name in names]
    found, marker = page(request, stores, lambda store: store.name)
    return {"TrustStores": [_shown(it) for it in found]} | ({"NextMarker": marker} if marker else {})


def describe_associations(context: RequestContext, request: ServiceRequest) -> ServiceResponse:
    """DescribeTrustStoreAssociations: the listeners that use it."""
    fleet = fleets.of_caller(context)
    users = sorted(_users(fleet, known.trust_store(fleet, request["TrustStoreArn"])))
    found, marker = page(request, users, lambda arn: arn)
    answer: dict[str, Any] = {"TrustStoreAssociations": [{"ResourceArn": arn} for arn in found]}
    return answer | ({"NextMarker": marker} if marker else {})


def _certificates(fleet: Fleet, request: ServiceRequest) -> int:
    s3 = connect_to(aws_access_key_id=fleet.account, region_name=fleet.region).s3
    version = request.get("CaCertificatesBundleS3ObjectVersion")
    where = {"Bucket": request["CaCertificatesBundleS3Bucket"], "Key": request["CaCertificatesBundleS3Key"]}
    try:
        bundle = s3.get_object(**where, **({"VersionId": version} if version else {}))["Body"].read()
    except ClientError:
        raise invalid("CaCertificatesBundleNotFound", f"There is no bundle of certificates at {where}") from None
    try:
        return len(load_pem_x509_certificates(bundle))
    except ValueError:
        raise invalid("InvalidCaCertificatesBundle", f"There are no certificates in the bundle at {where}") from None


def _users(fleet: Fleet, store: TrustStore) -> list[str]:
    return [
        listener.arn
        for balancer in fleet.balancers()
        for listener in list(balancer.listeners.values())
        if (listener.mutual_authentication or {}).get("TrustStoreArn") == store.arn
    ]


def _shown(store: TrustStore) -> Document:
    return {
        "Name": store.name,
        "TrustStoreArn": store.arn,
        "Status": "ACTIVE",
        "NumberOfCaCertificates": store.certificates,
        "TotalRevokedEntries": 0,
    }
