from typing import Any

from certificates import imported, pem
from conftest import Aws, refused

FIXED = [{"Type": "fixed-response", "FixedResponseConfig": {"StatusCode": "404"}}]


def target_group(aws: Aws, name: str) -> str:
    about = {"Protocol": "HTTP", "Port": 80, "VpcId": "vpc-causeway", "TargetType": "ip"}
    return aws.client("elbv2").create_target_group(Name=name, **about)["TargetGroups"][0]["TargetGroupArn"]


def forward(arn: str) -> list[dict[str, Any]]:
    return [{"Type": "forward", "TargetGroupArn": arn}]


def listen(aws: Aws, balancer: str, port: int, actions: list[dict[str, Any]]) -> str:
    elbv2 = aws.client("elbv2")
    answer = elbv2.create_listener(LoadBalancerArn=balancer, Protocol="HTTP", Port=port, DefaultActions=actions)
    return answer["Listeners"][0]["ListenerArn"]


def test_one_listener_per_port(aws: Aws) -> None:
    balancer, group = aws.create("web")["LoadBalancerArn"], target_group(aws, "web")
    listen(aws, balancer, 80, forward(group))
    with refused("DuplicateListener"):
        listen(aws, balancer, 80, FIXED)
    listen(aws, balancer, 81, forward(group))
    ports = aws.client("elbv2").describe_listeners(LoadBalancerArn=balancer)["Listeners"]
    assert [it["Port"] for it in ports] == [80, 81]


def test_a_target_group_hangs_on_one_load_balancer(aws: Aws) -> None:
    elbv2 = aws.client("elbv2")
    one, other = aws.create("one")["LoadBalancerArn"], aws.create("other")["LoadBalancerArn"]
    mine, free = target_group(aws, "mine"), target_group(aws, "free")
    listen(aws, one, 80, forward(mine))
    weighted = [{"Type": "forward", "ForwardConfig": {"TargetGroups": [{"TargetGroupArn": mine, "Weight": 1}]}}]
    for actions in (forward(mine), weighted):
        with refused("TargetGroupAssociationLimit", mine):
            listen(aws, other, 80, actions)
    listener = listen(aws, other, 80, forward(free))
    condition = [{"Field": "path-pattern", "Values": ["/a"]}]
    with refused("TargetGroupAssociationLimit"):
        elbv2.create_rule(ListenerArn=listener, Conditions=condition, Priority=1, Actions=forward(mine))
    created = elbv2.create_rule(ListenerArn=listener, Conditions=condition, Priority=1, Actions=forward(free))
    rule = created["Rules"][0]["RuleArn"]
    with refused("TargetGroupAssociationLimit"):
        elbv2.modify_rule(RuleArn=rule, Actions=forward(mine))
    with refused("TargetGroupAssociationLimit"):
        elbv2.modify_listener(ListenerArn=listener, DefaultActions=forward(mine))
    listen(aws, one, 81, forward(mine))
    rules = elbv2.describe_rules(ListenerArn=listener)["Rules"]
    assert [it["Priority"] for it in rules] == ["1", "default"]


def test_tags_of_listeners_and_target_groups(aws: Aws) -> None:
    elbv2, group = aws.client("elbv2"), target_group(aws, "web")
    listener = listen(aws, aws.create("web")["LoadBalancerArn"], 80, forward(group))
    tag = {"Key": "a", "Value": "b"}
    elbv2.add_tags(ResourceArns=[group, listener], Tags=[tag])
    described = elbv2.describe_tags(ResourceArns=[group, listener])["TagDescriptions"]
    assert [it["Tags"] for it in described] == [[tag], [tag]]


def secure(aws: Aws, balancer: str, *certificates: str, **about: Any) -> dict[str, Any]:
    asked = {"Protocol": "HTTPS", "Port": 443, "DefaultActions": FIXED} | about
    arns = [{"CertificateArn": arn} for arn in certificates]
    elbv2 = aws.client("elbv2", validate=False)
    return elbv2.create_listener(LoadBalancerArn=balancer, Certificates=arns, **asked)["Listeners"][0]


def test_a_secure_listener_is_what_was_asked_for(aws: Aws) -> None:
    elbv2, balancer = aws.client("elbv2"), aws.create("web")["LoadBalancerArn"]
    certificate = imported(aws, "a.example.com")
    created = secure(aws, balancer, certificate, Tags=[{"Key": "a", "Value": "b"}])
    arn = created["ListenerArn"]
    assert created == {
        "ListenerArn": arn,
        "LoadBalancerArn": balancer,
        "Port": 443,
        "Protocol": "HTTPS",
        "Certificates": [{"CertificateArn": certificate}],
        "SslPolicy": "ELBSecurityPolicy-2016-08",
        "DefaultActions": FIXED,
        "MutualAuthentication": {"Mode": "off"},
    }
    assert elbv2.describe_listeners(ListenerArns=[arn])["Listeners"] == [created]
    assert secure(aws, balancer, certificate) == created, "the same settings answer with the existing one"
    assert elbv2.describe_tags(ResourceArns=[arn])["TagDescriptions"][0]["Tags"] == [{"Key": "a", "Value": "b"}]


def test_certificates_are_required_for_https_and_refused_for_http(aws: Aws) -> None:
    balancer, certificate = aws.create("web")["LoadBalancerArn"], imported(aws, "a.example.com")
    with refused("ValidationError", "A certificate must be specified"):
        secure(aws, balancer)
    with refused("ValidationError", "cannot be specified for HTTP"):
        secure(aws, balancer, certificate, Protocol="HTTP")
    with refused("ValidationError", "cannot be specified for HTTP"):
        secure(aws, balancer, Protocol="HTTP", SslPolicy="ELBSecurityPolicy-2016-08")
    with refused("ValidationError", "Exactly one"):
        secure(aws, balancer, certificate, imported(aws, "b.example.com"))
    with refused("CertificateNotFound", certificate[:-1]):
        secure(aws, balancer, certificate[:-1])
    with refused("SSLPolicyNotFound", "'ELBSecurityPolicy-1999'"):
        secure(aws, balancer, certificate, SslPolicy="ELBSecurityPolicy-1999")
    for port in (0, 65536):
        with refused("ValidationError", "at 'port' failed to satisfy constraint"):
            secure(aws, balancer, certificate, Port=port)
    with refused("ValidationError", "ALPN"):
        secure(aws, balancer, certificate, AlpnPolicy=["HTTP2Preferred"])
    with refused("ValidationError", "'HTTPS, HTTP'"):
        secure(aws, balancer, certificate, Protocol="TLS")


def test_a_certificate_has_a_name_with_a_domain(aws: Aws) -> None:
    balancer = aws.create("web")["LoadBalancerArn"]
    for host in ("*", "localhost"):
        with refused("UnsupportedCertificate", "must have a fully-qualified domain name, a supported signature"):
            secure(aws, balancer, imported(aws, host))
    secure(aws, balancer, imported(aws, "*.example.com"))


def test_a_listener_changes(aws: Aws) -> None:
    elbv2, balancer = aws.client("elbv2"), aws.create("web")["LoadBalancerArn"]
    certificate, group = imported(aws, "a.example.com"), target_group(aws, "web")
    arn, other = listen(aws, balancer, 80, forward(group)), listen(aws, balancer, 81, FIXED)

    def modified(**changes: Any) -> dict[str, Any]:
        [answer] = elbv2.modify_listener(ListenerArn=arn, **changes)["Listeners"]
        assert elbv2.describe_listeners(ListenerArns=[arn])["Listeners"] == [answer]
        return answer

    with refused("DuplicateListener"):
        modified(Port=81)
    with refused("ValidationError", "A certificate must be specified"):
        modified(Protocol="HTTPS")
    policy = "ELBSecurityPolicy-TLS13-1-2-2021-06"
    arns = [{"CertificateArn": certificate}]
    after = modified(Protocol="HTTPS", Port=443, Certificates=arns, SslPolicy=policy, DefaultActions=FIXED)
    assert (after["Protocol"], after["Port"], after["SslPolicy"]) == ("HTTPS", 443, policy)
    assert after["DefaultActions"] == FIXED
    elbv2.delete_target_group(TargetGroupArn=group)
    assert modified(Port=8443) == after | {"Port": 8443}
    assert modified(MutualAuthentication={"Mode": "passthrough"})["MutualAuthentication"] == {"Mode": "passthrough"}
    assert "SslPolicy" not in modified(Protocol="HTTP")
    elbv2.delete_listener(ListenerArn=other)
    with refused("ListenerNotFound"):
        elbv2.delete_listener(ListenerArn=other)
    with refused("ListenerNotFound"):
        elbv2.describe_listeners(ListenerArns=[arn, other])
    with refused("LoadBalancerNotFound"):
        elbv2.describe_listeners(LoadBalancerArn=balancer + "0")


def test_more_certificates(aws: Aws) -> None:
    elbv2, balancer = aws.client("elbv2"), aws.create("web")["LoadBalancerArn"]
    first, *others = (imported(aws, f"{number}.example.com") for number in range(27))
    arn = secure(aws, balancer, first)["ListenerArn"]

    def add(*arns: str) -> None:
        elbv2.add_listener_certificates(ListenerArn=arn, Certificates=[{"CertificateArn": it} for it in arns])

    for other in others[:25]:
        add(other)
    add(others[0])
    with refused("TooManyCertificates", "(25)"):
        add(others[25])
    with refused("CertificateNotFound"):
        add(others[0][:-1])
    elbv2.remove_listener_certificates(ListenerArn=arn, Certificates=[{"CertificateArn": others[0]}])
    shown = elbv2.describe_listener_certificates(ListenerArn=arn)["Certificates"]
    assert shown[0] == {"CertificateArn": first, "IsDefault": True}
    assert shown[1:] == [{"CertificateArn": it, "IsDefault": False} for it in others[1:25]]
    with refused("OperationNotPermitted", "Default certificate cannot be removed"):
        elbv2.remove_listener_certificates(ListenerArn=arn, Certificates=[{"CertificateArn": first}])


def test_certificates_come_and_go_one_at_a_time(aws: Aws) -> None:
    elbv2, balancer = aws.client("elbv2"), aws.create("web")["LoadBalancerArn"]
    first, *others = (imported(aws, f"{number}.example.com") for number in range(3))
    arn, both = secure(aws, balancer, first)["ListenerArn"], [{"CertificateArn": it} for it in others]
    with refused("ValidationError", "one certificate per call"):
        elbv2.add_listener_certificates(ListenerArn=arn, Certificates=both)
    for one in both:
        elbv2.add_listener_certificates(ListenerArn=arn, Certificates=[one])
    with refused("ValidationError", "one certificate per call"):
        elbv2.remove_listener_certificates(ListenerArn=arn, Certificates=both)
    assert len(elbv2.describe_listener_certificates(ListenerArn=arn)["Certificates"]) == 3


def test_listener_attributes(aws: Aws) -> None:
    elbv2, balancer = aws.client("elbv2"), aws.create("web")["LoadBalancerArn"]
    arn = secure(aws, balancer, imported(aws, "a.example.com"))["ListenerArn"]
    plain = listen(aws, balancer, 80, FIXED)

    def modified(listener: str, key: str, value: str) -> dict[str, str]:
        pairs = [{"Key": key, "Value": value}]
        answer = elbv2.modify_listener_attributes(ListenerArn=listener, Attributes=pairs)["Attributes"]
        assert elbv2.describe_listener_attributes(ListenerArn=listener)["Attributes"] == answer
        return {it["Key"]: it["Value"] for it in answer}

    origin = "routing.http.response.access_control_allow_origin.header_value"
    server = "routing.http.response.server.enabled"
    version = "routing.http.request.x_amzn_tls_version.header_name"
    assert modified(plain, origin, "https://example.com")[origin] == "https://example.com"
    assert modified(plain, origin, "")[origin] == ""
    assert modified(arn, version, "X-Tls")[version] == "X-Tls"
    assert modified(arn, server, "false")[server] == "false"
    for listener, key, value in (
        (plain, version, "X-Tls"),
        (plain, "tcp.idle_timeout.seconds", "60"),
        (plain, origin, "somewhere"),
        (arn, version, "X Tls"),
        (arn, server, "no"),
        (arn, "routing.http.response.x_frame_options.header_value", "maybe"),
    ):
        with refused("ValidationError", key):
            modified(listener, key, value)


def test_clients_certificates_are_verified_against_a_known_trust_store(aws: Aws) -> None:
    elbv2, balancer = aws.client("elbv2"), aws.create("web")["LoadBalancerArn"]
    s3, bucket = aws.client("s3"), f"authorities-{aws.account}"
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="bundle.pem", Body=b"".join(pem(host)[0] for host in ("a.test", "b.test")))
    s3.put_object(Bucket=bucket, Key="empty.pem", Body=b"")
    about = {"CaCertificatesBundleS3Bucket": bucket}
    with refused("CaCertificatesBundleNotFound"):
        elbv2.create_trust_store(Name="clients", CaCertificatesBundleS3Key="none", **about)
    with refused("InvalidCaCertificatesBundle"):
        elbv2.create_trust_store(Name="clients", CaCertificatesBundleS3Key="empty.pem", **about)
    [store] = elbv2.create_trust_store(Name="clients", CaCertificatesBundleS3Key="bundle.pem", **about)["TrustStores"]
    assert (store["Status"], store["NumberOfCaCertificates"]) == ("ACTIVE", 2)
    assert elbv2.describe_trust_stores(Names=["clients"])["TrustStores"] == [store]
    certificate, trusted = imported(aws, "a.example.com"), store["TrustStoreArn"]
    for mutual, code in (
        ({"Mode": "verify"}, "ValidationError"),
        ({"Mode": "strict"}, "ValidationError"),
        ({"Mode": "passthrough", "TrustStoreArn": trusted}, "ValidationError"),
        ({"Mode": "verify", "TrustStoreArn": trusted + "0"}, "TrustStoreNotFound"),
    ):
        with refused(code):
            secure(aws, balancer, certificate, MutualAuthentication=mutual)
    created = secure(aws, balancer, certificate, MutualAuthentication={"Mode": "verify", "TrustStoreArn": trusted})
    assert created["MutualAuthentication"] == {
        "Mode": "verify",
        "TrustStoreArn": trusted,
        "IgnoreClientCertificateExpiry": False,
        "TrustStoreAssociationStatus": "active",
        "AdvertiseTrustStoreCaNames": "off",
    }
    with refused("TrustStoreInUse"):
        elbv2.delete_trust_store(TrustStoreArn=trusted)
    elbv2.delete_listener(ListenerArn=created["ListenerArn"])
    elbv2.delete_trust_store(TrustStoreArn=trusted)


def test_ssl_policies_are_described(aws: Aws) -> None:
    elbv2 = aws.client("elbv2")
    names = [it["Name"] for it in elbv2.describe_ssl_policies()["SslPolicies"]]
    assert {"ELBSecurityPolicy-2016-08", "ELBSecurityPolicy-TLS13-1-2-Res-PQ-2025-09"} < set(names)
    [policy] = elbv2.describe_ssl_policies(Names=["ELBSecurityPolicy-TLS13-1-3-2021-06"])["SslPolicies"]
    assert policy["SslProtocols"] == ["TLSv1.3"]
    with refused("SSLPolicyNotFound"):
        elbv2.describe_ssl_policies(Names=["none"])


def test_fifty_listeners_on_a_load_balancer(aws: Aws) -> None:
    balancer = aws.create("web")["LoadBalancerArn"]
    for port in range(1, 51):
        listen(aws, balancer, port, FIXED)
    with refused("TooManyListeners", "(50)"):
        listen(aws, balancer, 51, FIXED)


def test_target_groups_must_suit_the_listener(aws: Aws) -> None:
    elbv2, balancer = aws.client("elbv2"), aws.create("web")["LoadBalancerArn"]
    vpc = aws.client("ec2").create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    about = {"Port": 80, "VpcId": "vpc-causeway", "TargetType": "ip"}

    def group(name: str, **other: Any) -> str:
        return elbv2.create_target_group(Name=name, **(about | other))["TargetGroups"][0]["TargetGroupArn"]

    with refused("IncompatibleProtocols", "'TCP'"):
        listen(aws, balancer, 80, forward(group("tcp", Protocol="TCP")))
    with refused("InvalidConfigurationRequest", "'GRPC'"):
        listen(aws, balancer, 80, forward(group("grpc", Protocol="HTTP", ProtocolVersion="GRPC")))
    with refused("InvalidConfigurationRequest", vpc):
        listen(aws, balancer, 80, forward(group("elsewhere", Protocol="HTTP", VpcId=vpc)))
    with refused("TargetGroupNotFound"):
        listen(aws, balancer, 80, forward(group("good", Protocol="HTTP") + "0"))
    listen(aws, balancer, 80, forward(group("good", Protocol="HTTP")))


def test_a_hundred_target_groups_on_a_load_balancer(aws: Aws) -> None:
    elbv2, balancer = aws.client("elbv2"), aws.create("web")["LoadBalancerArn"]
    groups = [target_group(aws, f"web-{number}") for number in range(101)]
    for port, first in enumerate(range(0, 100, 5), start=1):
        weighted = [{"TargetGroupArn": arn, "Weight": 0} for arn in groups[first : first + 5]]
        listen(aws, balancer, port, [{"Type": "forward", "ForwardConfig": {"TargetGroups": weighted}}])
    with refused("TooManyUniqueTargetGroupsPerLoadBalancer", "(100)"):
        listen(aws, balancer, 100, forward(groups[100]))
    arn = listen(aws, balancer, 100, forward(groups[0]))
    with refused("TooManyUniqueTargetGroupsPerLoadBalancer"):
        elbv2.modify_listener(ListenerArn=arn, DefaultActions=forward(groups[100]))
