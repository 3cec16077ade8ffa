from conftest import Aws, refused


def test_capacity_is_reserved_and_given_back(aws: Aws) -> None:
    elbv2, arn = aws.client("elbv2"), aws.create("web")["LoadBalancerArn"]
    assert "MinimumLoadBalancerCapacity" not in elbv2.describe_capacity_reservation(LoadBalancerArn=arn)

    def reserve(units: int) -> int:
        asked = {"CapacityUnits": units}
        answer = elbv2.modify_capacity_reservation(LoadBalancerArn=arn, MinimumLoadBalancerCapacity=asked)
        shown = elbv2.describe_capacity_reservation(LoadBalancerArn=arn)
        assert shown["MinimumLoadBalancerCapacity"] == answer["MinimumLoadBalancerCapacity"] == asked
        assert [it["EffectiveCapacityUnits"] for it in shown["CapacityReservationState"]] == [units / 2] * 2
        return shown["DecreaseRequestsRemaining"]

    assert [reserve(units) for units in (300, 400, 300, 200)] == [2, 2, 1, 0]
    with refused("CapacityDecreaseRequestLimitExceeded"):
        reserve(100)
    with refused("ValidationError", "at least 100"):
        reserve(99)
    with refused("CapacityUnitsLimitExceeded"):
        reserve(1501)
    with refused("ValidationError", "either"):
        elbv2.modify_capacity_reservation(LoadBalancerArn=arn)
    elbv2.modify_capacity_reservation(LoadBalancerArn=arn, ResetCapacityReservation=True)
    assert "MinimumLoadBalancerCapacity" not in elbv2.describe_capacity_reservation(LoadBalancerArn=arn)
