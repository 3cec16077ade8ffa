from conftest import Aws, refused


def test_a_protected_load_balancer_stays(aws: Aws) -> None:
    elbv2, arn = aws.client("elbv2"), aws.create("web")["LoadBalancerArn"]

    def protect(value: str) -> None:
        attribute = {"Key": "deletion_protection.enabled", "Value": value}
        elbv2.modify_load_balancer_attributes(LoadBalancerArn=arn, Attributes=[attribute])

    protect("true")
    with refused("OperationNotPermitted", "deletion protection is enabled"):
        elbv2.delete_load_balancer(LoadBalancerArn=arn)
    assert len(aws.describe()) == 1
    protect("false")
    elbv2.delete_load_balancer(LoadBalancerArn=arn)
    assert aws.describe() == []


def test_deleting_what_is_gone_succeeds(aws: Aws) -> None:
    elbv2, arn = aws.client("elbv2"), aws.create("web")["LoadBalancerArn"]
    elbv2.delete_load_balancer(LoadBalancerArn=arn)
    elbv2.delete_load_balancer(LoadBalancerArn=arn)


def test_a_name_is_free_after_deletion_and_its_tags_are_gone(aws: Aws) -> None:
    elbv2 = aws.client("elbv2")
    arn = aws.create("web", Tags=[{"Key": "a", "Value": "b"}])["LoadBalancerArn"]
    elbv2.delete_load_balancer(LoadBalancerArn=arn)
    with refused("LoadBalancerNotFound"):
        elbv2.describe_tags(ResourceArns=[arn])
    assert aws.create("web", Scheme="internal")["LoadBalancerArn"] != arn


def test_an_attached_security_group_stays(aws: Aws) -> None:
    elbv2, ec2, arn = aws.client("elbv2"), aws.client("ec2"), aws.create("web")["LoadBalancerArn"]
    with refused("DependencyViolation", "resource sg-web has a dependent object"):
        ec2.delete_security_group(GroupId="sg-web")
    elbv2.set_security_groups(LoadBalancerArn=arn, SecurityGroups=["sg-other"])
    ec2.delete_security_group(GroupId="sg-web")
    elbv2.delete_load_balancer(LoadBalancerArn=arn)
    ec2.delete_security_group(GroupId="sg-other")
