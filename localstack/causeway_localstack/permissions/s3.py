"""Actions on buckets and objects.

Which permission an operation asks for:
https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html; condition keys:
https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html; both read on 2026-11-24.

Of DeleteObjects that names one key which may not be deleted, nothing is done; AWS deletes the others.
"""

import json
from collections.abc import Mapping
from typing import Any

from localstack.aws.api import RequestContext
from localstack.services.s3.models import S3Bucket, s3_stores

from ..policy import Request
from . import keys

_ACTIONS = {
    "CompleteMultipartUpload": "PutObject",
    "CreateMultipartUpload": "PutObject",
    "DeleteBucketEncryption": "PutEncryptionConfiguration",
    "DeleteBucketLifecycle": "PutLifecycleConfiguration",
    "DeleteBucketOwnershipControls": "PutBucketOwnershipControls",
    "DeleteBucketTagging": "PutBucketTagging",
    "DeletePublicAccessBlock": "PutBucketPublicAccessBlock",
    "GetBucketEncryption": "GetEncryptionConfiguration",
    "GetBucketLifecycleConfiguration": "GetLifecycleConfiguration",
    "GetObjectLockConfiguration": "GetBucketObjectLockConfiguration",
    "GetPublicAccessBlock": "GetBucketPublicAccessBlock",
    "HeadBucket": "ListBucket",
    "HeadObject": "GetObject",
    "ListBuckets": "ListAllMyBuckets",
    "ListMultipartUploads": "ListBucketMultipartUploads",
    "ListObjects": "ListBucket",
    "ListObjectsV2": "ListBucket",
    "ListObjectVersions": "ListBucketVersions",
    "ListParts": "ListMultipartUploadParts",
    "PutBucketEncryption": "PutEncryptionConfiguration",
    "PutBucketLifecycleConfiguration": "PutLifecycleConfiguration",
    "PutObjectLockConfiguration": "PutBucketObjectLockConfiguration",
    "PutPublicAccessBlock": "PutBucketPublicAccessBlock",
    "UploadPart": "PutObject",
    "UploadPartCopy": "PutObject",
    "CopyObject": "PutObject",
}
"""Where the action is not called after the operation."""

_OF_VERSIONS = ("DeleteObject", "GetObject")
"""Actions that are others on a version."""

_NO_CREATION = ("CreateMultipartUpload", "UploadPart", "UploadPartCopy")
"""Operations that need s3:PutObject and create no object, so that they take no conditions.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html
"""

_BESIDE = {
    "PutObjectAcl": ("ACL", "GrantFullControl", "GrantRead", "GrantReadACP", "GrantWriteACP"),
    "PutObjectLegalHold": ("ObjectLockLegalHoldStatus",),
    "PutObjectRetention": ("ObjectLockMode", "ObjectLockRetainUntilDate"),
    "PutObjectTagging": ("Tagging",),
}
"""Further rights of a request that writes an object, if it has one of these fields.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html#using-with-s3-policy-actions-related-to-objects
"""

_STORE_REGION = "us-east-1"
"""Where LocalStack keeps the buckets of all regions."""


def requests(context: RequestContext) -> list[Request]:
    """All that must be allowed for the call."""
    asked, operation = context.service_request or {}, context.operation.name
    action = _ACTIONS.get(operation, operation)
    bucket, key = asked.get("Bucket"), asked.get("Key")
    if not bucket:
        return [Request(f"s3:{action}")]
    known = _known(context, bucket)
    if operation == "DeleteObjects":
        named = (asked.get("Delete") or {}).get("Objects") or []
        return [_on_object("DeleteObject", bucket, it["Key"], it.get("VersionId"), known) for it in named]
    if key is None:
        return _on_bucket(context, action, known)
    if action == "PutObject":
        known = known | _writing(context)
    needed = [_on_object(action, bucket, key, asked.get("VersionId"), known)]
    if action == "PutObject":
        beside = [it for it, fields in _BESIDE.items() if any(asked.get(field) for field in fields)]
        needed += [_on_object(it, bucket, key, None, known) for it in beside]
    if operation in ("CopyObject", "UploadPartCopy"):
        source = str(asked.get("CopySource") or "").lstrip("/").partition("?")[0]
        whence, _, what = source.partition("/")
        needed.append(_on_object("GetObject", whence, what, None, _known(context, whence)))
    if operation in ("GetObject", "HeadObject") and not _is_there(context, bucket, key):
        # Who may not list the bucket hears 403 of what is not there, not 404. Such a request has no s3:prefix. AWS does
        # not say whether a policy that asks for one is met by it; here it is not.
        # https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
        needed.append(Request("s3:ListBucket", f"arn:aws:s3:::{bucket}", _known(context, bucket)))
    return needed


def _on_bucket(context: RequestContext, action: str, known: keys.Keys) -> list[Request]:
    asked = context.service_request
    arn = f"arn:aws:s3:::{asked['Bucket']}"
    if action == "ListBucket":
        return [Request("s3:ListBucket", arn, known | _listing(context))]
    needed = [Request(f"s3:{action}", arn, known)]
    if action == "CreateBucket":
        if asked.get("ObjectOwnership"):
            needed.append(Request("s3:PutBucketOwnershipControls", arn, known))
        if tags := (asked.get("CreateBucketConfiguration") or {}).get("Tags"):
            needed.append(Request("s3:TagResource", arn, known | keys.request_tags(tags)))
    return needed


def _on_object(action: str, bucket: str, key: str, version: str | None, known: keys.Keys) -> Request:
    name = f"{action}Version" if version and action in _OF_VERSIONS else action
    return Request(f"s3:{name}", f"arn:aws:s3:::{bucket}/{key}", known)


def _listing(context: RequestContext) -> keys.Keys:
    asked = context.service_request
    given = {"s3:prefix": "Prefix", "s3:delimiter": "Delimiter", "s3:max-keys": "MaxKeys"}
    return {key: [str(asked[name])] for key, name in given.items() if asked.get(name) is not None}


def _writing(context: RequestContext) -> keys.Keys:
    asked = context.service_request
    creates = context.operation.name not in _NO_CREATION
    found: keys.Keys = {"s3:objectcreationoperation": [str(creates).lower()]}
    given = {"s3:if-none-match": "IfNoneMatch", "s3:if-match": "IfMatch", "s3:x-amz-copy-source": "CopySource"}
    return found | {key: [str(asked[name])] for key, name in given.items() if asked.get(name)}


def policy(context: RequestContext) -> Mapping[str, Any]:
    """The policy of the bucket that a call is about; one that says nothing where it has none."""
    name = (context.service_request or {}).get("Bucket")
    bucket = _bucket(context, name) if name else None
    return json.loads(bucket.policy) if bucket and bucket.policy else {}


def _known(context: RequestContext, bucket: str) -> keys.Keys:
    """Every call counts as one by TLS: LocalStack stands for an AWS that has it.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html#condition-keys-resourceaccount
    """
    owner = s3_stores[context.account_id][_STORE_REGION].global_bucket_map.get(bucket)
    return {"aws:resourceaccount": [owner or context.account_id], "aws:securetransport": ["true"]}


def _is_there(context: RequestContext, bucket: str, key: str) -> bool:
    found = _bucket(context, bucket)
    return found is not None and found.objects.get(key) is not None


def _bucket(context: RequestContext, name: str) -> S3Bucket | None:
    owner = s3_stores[context.account_id][_STORE_REGION].global_bucket_map.get(name)
    return s3_stores[owner][_STORE_REGION].buckets.get(name) if owner else None
