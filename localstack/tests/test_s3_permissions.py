"""The rights of backup Jobs in S3 by the published policies, and their limits.

A tenant may run any pod as the service account `causeway-backup` of its namespace: it has all that the Jobs' role has.
"""

import io
import json
import urllib.error
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.client import BaseClient
from conftest import Aws, refused
from issuer import URL, Issuer
from roles import PUBLISHED, filled
from test_web_identity import assume, credentials

NAME = "causeway-backup-{}"
KEY = "{}/nightly/uid/redis-cache/20261122T000500Z/{}"
CLUSTER = "arn:aws:eks:us-east-1:{}:cluster/blue"


def document(aws: Aws, file: str, namespace: str = "") -> dict[str, Any]:
    text = json.dumps(filled(PUBLISHED / file, aws.account))
    text = text.replace("${OIDC_PROVIDER}", URL.removeprefix("https://")).replace("${NAMESPACE}", namespace)
    return json.loads(text)


def bucket(aws: Aws) -> str:
    """A bucket of the cluster `blue`, with a backup of each of two namespaces."""
    name = f"causeway-blue-{aws.account}-us-east-1"
    root = aws.client("s3")
    root.create_bucket(Bucket=name)
    for key in root.list_objects_v2(Bucket=name).get("Contents") or []:
        root.delete_object(Bucket=name, Key=key["Key"])
    for namespace in ("bank", "shop"):
        for file in ("data", "manifest.json"):
            root.put_object(Bucket=name, Key=KEY.format(namespace, file), Body=namespace.encode())
    return name


def role(aws: Aws, trust: dict[str, Any], name: str, **tags: str) -> str:
    about = {
        "name": name,
        "trust_policy": trust,
        "policies": {"jobs": document(aws, "policy-backup-jobs.json")},
        "tags": {key.replace("_", "-"): value for key, value in tags.items()},
    }
    return aws.admin("POST", "role", about)["arn"]


def by_web_identity(aws: Aws, namespace: str) -> BaseClient:
    issuer = Issuer()
    aws.admin("POST", "oidc", {"issuer": URL, "jwks": issuer.jwks()})
    trust = document(aws, "trust-backup-jobs.json", namespace)
    arn = role(aws, trust, NAME.format(namespace), kubernetes_namespace=namespace)
    token = issuer.token(sub=f"system:serviceaccount:{namespace}:causeway-backup")
    return aws.client("s3", **credentials(assume(aws, arn, token)))


def tags_of_a_pod(aws: Aws, namespace: str) -> dict[str, str]:
    return {
        "eks-cluster-arn": CLUSTER.format(aws.account),
        "eks-cluster-name": "blue",
        "kubernetes-namespace": namespace,
        "kubernetes-service-account": "causeway-backup",
        "kubernetes-pod-name": "nightly-1",
        "kubernetes-pod-uid": "uid",
    }


def by_pod_identity(aws: Aws, namespace: str) -> BaseClient:
    arn = role(aws, document(aws, "trust-backup-jobs-pod-identity.json"), "causeway-backup")
    given = aws.admin("POST", "pod-identity", {"role": arn, "tags": tags_of_a_pod(aws, namespace)})
    return aws.client("s3", **credentials({"Credentials": given}))


@pytest.fixture(params=[by_web_identity, by_pod_identity], ids=["web-identity", "pod-identity"])
def jobs(request: pytest.FixtureRequest, aws: Aws) -> Callable[[str], BaseClient]:
    return lambda namespace: request.param(aws, namespace)


def test_a_namespace_has_nothing_of_another_ones_backups(aws: Aws, jobs: Callable[[str], BaseClient]) -> None:
    name, s3 = bucket(aws), jobs("shop")
    theirs, ours = KEY.format("bank", "data"), KEY.format("shop", "data")
    upload = aws.client("s3").create_multipart_upload(Bucket=name, Key=theirs)["UploadId"]
    once = {"IfNoneMatch": "*"}
    for denied in (
        lambda: s3.get_object(Bucket=name, Key=theirs),
        lambda: s3.get_object(Bucket=name, Key=KEY.format("bank", "none")),
        lambda: s3.list_objects_v2(Bucket=name),
        lambda: s3.list_objects_v2(Bucket=name, Prefix="bank/"),
        lambda: s3.list_objects_v2(Bucket=name, Prefix="shop"),
        lambda: s3.list_objects(Bucket=name, Prefix="bank/"),
        lambda: s3.list_object_versions(Bucket=name, Prefix="bank/"),
        lambda: s3.list_multipart_uploads(Bucket=name),
        lambda: s3.put_object(Bucket=name, Key=theirs, Body=b"evil"),
        lambda: s3.put_object(Bucket=name, Key=KEY.format("bank", "new"), Body=b"evil", **once),
        lambda: s3.put_object(Bucket=name, Key="shopping/x", Body=b"evil", **once),
        lambda: s3.create_multipart_upload(Bucket=name, Key=theirs),
        lambda: s3.upload_part(Bucket=name, Key=theirs, UploadId=upload, PartNumber=1, Body=b"evil"),
        lambda: s3.abort_multipart_upload(Bucket=name, Key=theirs, UploadId=upload),
        lambda: s3.copy_object(Bucket=name, Key=KEY.format("shop", "copy"), CopySource={"Bucket": name, "Key": theirs}),
        lambda: s3.delete_object(Bucket=name, Key=theirs),
        lambda: s3.delete_objects(Bucket=name, Delete={"Objects": [{"Key": theirs}]}),
        lambda: s3.put_bucket_policy(Bucket=name, Policy="{}"),
    ):
        with refused("AccessDenied"):
            denied()
    with refused("403"):
        s3.head_object(Bucket=name, Key=theirs)
    with refused("403"):
        s3.head_object(Bucket=name, Key=KEY.format("shop", "none"))
    assert s3.get_object(Bucket=name, Key=ours)["Body"].read() == b"shop"
    listed = s3.list_objects_v2(Bucket=name, Prefix="shop/")["Contents"]
    assert [it["Key"] for it in listed] == [ours, KEY.format("shop", "manifest.json")]


def test_a_namespace_that_is_called_as_an_object_of_another_one_has_nothing_of_it(
    aws: Aws, jobs: Callable[[str], BaseClient]
) -> None:
    """A `*` in an ARN goes over slashes: one before the namespace would match these keys, too."""
    name, s3 = bucket(aws), jobs("nightly")
    theirs = KEY.format("shop", "data")
    with refused("AccessDenied"):
        s3.get_object(Bucket=name, Key=theirs)
    with refused("AccessDenied"):
        s3.list_objects_v2(Bucket=name, Prefix="shop/nightly/")
    with refused("AccessDenied"):
        s3.put_object(Bucket=name, Key="shop/nightly/new", Body=b"evil", IfNoneMatch="*")


def test_nothing_is_overwritten_and_nothing_deleted(aws: Aws, jobs: Callable[[str], BaseClient]) -> None:
    name, s3 = bucket(aws), jobs("shop")
    ours, new = KEY.format("shop", "data"), KEY.format("shop", "new")
    etag = s3.head_object(Bucket=name, Key=ours)["ETag"]
    copied = {"Bucket": name, "Key": KEY.format("shop", "manifest.json")}
    for denied in (
        lambda: s3.put_object(Bucket=name, Key=ours, Body=b"other"),
        lambda: s3.put_object(Bucket=name, Key=new, Body=b"other"),
        lambda: s3.put_object(Bucket=name, Key=ours, Body=b"other", IfMatch=etag),
        lambda: s3.copy_object(Bucket=name, Key=ours, CopySource=copied),
        lambda: s3.delete_object(Bucket=name, Key=ours),
    ):
        with refused("AccessDenied"):
            denied()
    with refused("PreconditionFailed"):
        s3.put_object(Bucket=name, Key=ours, Body=b"other", IfNoneMatch="*")
    s3.put_object(Bucket=name, Key=new, Body=b"new", IfNoneMatch="*")
    for key, code in ((KEY.format("shop", "parts"), None), (ours, "PreconditionFailed")):
        upload = {"Bucket": name, "Key": key}
        upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
        part = s3.upload_part(**upload, PartNumber=1, Body=io.BytesIO(b"part"))
        upload["MultipartUpload"] = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
        with refused("AccessDenied"):
            s3.complete_multipart_upload(**upload)
        if code is None:
            s3.complete_multipart_upload(**upload, IfNoneMatch="*")
        else:
            with refused(code):
                s3.complete_multipart_upload(**upload, IfNoneMatch="*")
    assert s3.get_object(Bucket=name, Key=ours)["Body"].read() == b"shop"


def test_a_token_gives_the_role_of_its_own_namespace_only(aws: Aws) -> None:
    bucket(aws)
    by_web_identity(aws, "bank")
    issuer = Issuer()
    aws.admin("POST", "oidc", {"issuer": URL, "jwks": issuer.jwks()})
    theirs = f"arn:aws:iam::{aws.account}:role/{NAME.format('bank')}"
    for subject in ("shop:causeway-backup", "bank:default", "bank:causeway-backup2", "*:causeway-backup"):
        with refused("AccessDenied"):
            assume(aws, theirs, issuer.token(sub=f"system:serviceaccount:{subject}"))
    assume(aws, theirs, issuer.token(sub="system:serviceaccount:bank:causeway-backup"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"kubernetes-service-account": "default"},
        {"eks-cluster-arn": "arn:aws:eks:us-east-1:100000000001:cluster/green"},
    ],
)
def test_eks_gives_the_role_to_the_service_accounts_of_jobs_in_this_cluster(aws: Aws, wrong: dict[str, str]) -> None:
    arn = role(aws, document(aws, "trust-backup-jobs-pod-identity.json"), "causeway-backup")
    with pytest.raises(urllib.error.HTTPError):
        aws.admin("POST", "pod-identity", {"role": arn, "tags": tags_of_a_pod(aws, "shop") | wrong})


def test_a_job_gives_no_others_a_right_to_what_it_writes(aws: Aws, jobs: Callable[[str], BaseClient]) -> None:
    """An ACL, tags and a lock each ask for a right of their own, also where they come with the object."""
    name, s3 = bucket(aws), jobs("shop")
    new, once = KEY.format("shop", "new"), {"IfNoneMatch": "*", "Body": b"x"}
    of, source = {"Bucket": name, "Key": new}, {"Bucket": name, "Key": KEY.format("shop", "data")}
    all_users = "uri=http://acs.amazonaws.com/groups/global/AllUsers"
    lock = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": datetime(2100, 1, 1, tzinfo=UTC)}
    for denied in (
        lambda: s3.put_object(**of, **once, ACL="public-read"),
        lambda: s3.put_object(**of, **once, GrantRead=all_users),
        lambda: s3.put_object(**of, **once, GrantFullControl=all_users),
        lambda: s3.create_multipart_upload(**of, ACL="public-read-write"),
        lambda: s3.create_multipart_upload(**of, GrantReadACP=all_users),
        lambda: s3.copy_object(**of, CopySource=source, ACL="authenticated-read"),
        lambda: s3.put_object_acl(**source, ACL="public-read"),
        lambda: s3.put_object(**of, **once, Tagging="a=b"),
        lambda: s3.put_object_tagging(**source, Tagging={"TagSet": [{"Key": "a", "Value": "b"}]}),
        lambda: s3.put_object(**of, **once, **lock),
        lambda: s3.create_multipart_upload(**of, ObjectLockLegalHoldStatus="ON"),
        lambda: s3.put_bucket_acl(Bucket=name, ACL="public-read"),
    ):
        with refused("AccessDenied"):
            denied()
    s3.put_object(**of, **once)
    root = aws.client("s3")
    root.put_object(**of, Body=b"x", ACL="public-read")


def test_a_role_without_the_tag_may_do_nothing(aws: Aws) -> None:
    """As one that all namespaces share, by a policy of before."""
    name, issuer = bucket(aws), Issuer()
    aws.admin("POST", "oidc", {"issuer": URL, "jwks": issuer.jwks()})
    arn = role(aws, document(aws, "trust-backup-jobs.json", "shop"), "shared")
    token = issuer.token(sub="system:serviceaccount:shop:causeway-backup")
    s3 = aws.client("s3", **credentials(assume(aws, arn, token)))
    for denied in (
        lambda: s3.get_object(Bucket=name, Key=KEY.format("shop", "data")),
        lambda: s3.list_objects_v2(Bucket=name, Prefix="shop/"),
        lambda: s3.list_objects_v2(Bucket=name, Prefix="/x"),
        lambda: s3.put_object(Bucket=name, Key="/x", Body=b"x", IfNoneMatch="*"),
    ):
        with refused("AccessDenied"):
            denied()


def test_the_operators_own_policy_is_enough_to_keep_a_bucket_and_reads_no_data(aws: Aws) -> None:
    name, issuer = f"causeway-blue-{aws.account}-eu-west-1", Issuer()
    aws.admin("POST", "oidc", {"issuer": URL, "jwks": issuer.jwks()})
    about = {
        "name": "causeway",
        "trust_policy": document(aws, "trust-irsa.json"),
        "policies": {"backups": document(aws, "policy-backup-operator.json")},
    }
    s3 = aws.client("s3", **credentials(assume(aws, aws.admin("POST", "role", about)["arn"], issuer.token())))
    of, tags = {"Bucket": name}, [{"Key": "causeway.example.com/cluster", "Value": "blue"}]
    owned = "BucketOwnerEnforced"
    s3.create_bucket(**of, ObjectOwnership=owned, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    s3.put_bucket_tagging(**of, Tagging={"TagSet": tags})
    s3.get_bucket_tagging(**of)
    blocked = ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")
    s3.put_public_access_block(**of, PublicAccessBlockConfiguration=dict.fromkeys(blocked, True))
    s3.get_public_access_block(**of)
    s3.put_bucket_ownership_controls(**of, OwnershipControls={"Rules": [{"ObjectOwnership": owned}]})
    s3.get_bucket_ownership_controls(**of)
    encryption = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
    s3.put_bucket_encryption(**of, ServerSideEncryptionConfiguration={"Rules": [encryption]})
    s3.get_bucket_encryption(**of)
    rule = {"ID": "r", "Status": "Enabled", "Filter": {"Prefix": ""}}
    rules = [rule | {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}}]
    s3.put_bucket_lifecycle_configuration(**of, LifecycleConfiguration={"Rules": rules})
    s3.get_bucket_lifecycle_configuration(**of)
    statement = {"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{name}/none"}
    s3.put_bucket_policy(**of, Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    s3.get_bucket_policy(**of)
    root, data, manifest = aws.client("s3"), KEY.format("shop", "data"), KEY.format("shop", "manifest.json")
    for key in (data, manifest):
        root.put_object(**of, Key=key, Body=b"x")
    upload = root.create_multipart_upload(**of, Key=data)["UploadId"]
    assert len(s3.list_objects_v2(**of)["Contents"]) == 2
    assert len(s3.list_multipart_uploads(**of)["Uploads"]) == 1
    s3.get_object(**of, Key=manifest)
    with refused("NoSuchKey"):
        s3.get_object(**of, Key=KEY.format("bank", "manifest.json"))
    signature = f"{manifest}.sig"
    for denied in (
        lambda: s3.get_object(**of, Key=data),
        lambda: s3.put_object(**of, Key=data, Body=b"evil"),
        lambda: s3.put_object(**of, Key=data, Body=b"evil", IfNoneMatch="*"),
        lambda: s3.put_object(**of, Key=manifest, Body=b"evil", IfNoneMatch="*"),
        lambda: s3.put_object(**of, Key=signature, Body=b"evil"),
    ):
        with refused("AccessDenied"):
            denied()
    s3.put_object(**of, Key=signature, Body=b"signed", IfNoneMatch="*")
    assert s3.get_object(**of, Key=signature)["Body"].read() == b"signed"
    statement |= {"Effect": "Allow", "Action": "s3:*", "Resource": f"arn:aws:s3:::{name}/*"}
    s3.put_bucket_policy(**of, Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    assert root.get_object(**of, Key=data)["Body"].read() == b"x"
    with refused("AccessDenied", "with an explicit deny"):
        s3.get_object(**of, Key=data)
    for other in (f"causeway-green-{aws.account}-eu-west-1", f"causeway-blue-eu-{aws.account}-us-east-1"):
        with refused("AccessDenied"):
            s3.create_bucket(Bucket=other)
        root.create_bucket(Bucket=other)
        with refused("AccessDenied"):
            s3.put_bucket_policy(Bucket=other, Policy=json.dumps({"Version": "2012-10-17", "Statement": []}))
        root.delete_bucket(Bucket=other)
    s3.abort_multipart_upload(**of, Key=data, UploadId=upload)
    s3.delete_objects(**of, Delete={"Objects": [{"Key": manifest}, {"Key": data}, {"Key": signature}]})
    s3.put_bucket_versioning(**of, VersioningConfiguration={"Status": "Enabled"})
    assert s3.get_bucket_versioning(**of)["Status"] == "Enabled"
    version = root.put_object(**of, Key=data, Body=b"x")["VersionId"]
    assert [it["VersionId"] for it in s3.list_object_versions(**of)["Versions"]] == [version]
    s3.delete_objects(**of, Delete={"Objects": [{"Key": data, "VersionId": version}]})
    lock = {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}}
    s3.put_object_lock_configuration(**of, ObjectLockConfiguration=lock)
    assert s3.get_object_lock_configuration(**of)["ObjectLockConfiguration"] == lock
    s3.delete_bucket(**of)


def test_a_buckets_own_policy_binds_whoever_may_write_by_theirs(aws: Aws) -> None:
    name, issuer = bucket(aws), Issuer()
    aws.admin("POST", "oidc", {"issuer": URL, "jwks": issuer.jwks()})
    everything = {"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}}
    about = {"name": "mighty", "trust_policy": document(aws, "trust-backup-jobs.json", "shop")}
    arn = aws.admin("POST", "role", about | {"policies": {"everything": everything}})["arn"]
    token = issuer.token(sub="system:serviceaccount:shop:causeway-backup")
    s3 = aws.client("s3", **credentials(assume(aws, arn, token)))
    ours = KEY.format("shop", "data")
    s3.put_object(Bucket=name, Key=ours, Body=b"other")
    objects = f"arn:aws:s3:::{name}/*"
    once = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:PutObject",
        "Resource": objects,
        "Condition": {"Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}},
    }
    tls = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": objects,
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    other = {"Effect": "Deny", "Principal": {"AWS": f"{arn}-other"}, "Action": "s3:*", "Resource": objects}
    policy = {"Version": "2012-10-17", "Statement": [once, tls, other]}
    aws.client("s3").put_bucket_policy(Bucket=name, Policy=json.dumps(policy))
    with refused("AccessDenied", "with an explicit deny in a resource-based policy"):
        s3.put_object(Bucket=name, Key=ours, Body=b"evil")
    s3.put_object(Bucket=name, Key=KEY.format("shop", "new"), Body=b"new", IfNoneMatch="*")
    s3.create_multipart_upload(Bucket=name, Key=ours)
    assert s3.get_object(Bucket=name, Key=ours)["Body"].read() == b"other"
    policy["Statement"] = [other | {"Principal": {"AWS": arn}}]
    aws.client("s3").put_bucket_policy(Bucket=name, Policy=json.dumps(policy))
    with refused("AccessDenied"):
        s3.get_object(Bucket=name, Key=ours)
    aws.client("s3").delete_bucket_policy(Bucket=name)


def test_buckets_of_other_clusters_are_out_of_reach(aws: Aws, jobs: Callable[[str], BaseClient]) -> None:
    s3, other = jobs("shop"), f"causeway-blue-eu-{aws.account}-us-east-1"
    root = aws.client("s3")
    root.create_bucket(Bucket=other)
    root.put_object(Bucket=other, Key=KEY.format("shop", "data"), Body=b"green")
    with refused("AccessDenied"):
        s3.get_object(Bucket=other, Key=KEY.format("shop", "data"))
