//! Calls about target groups.

use aws_sdk_elasticloadbalancingv2::types as aws;

use causeway_runtime::Class;

use super::pages::{PAGE, next_marker};
use super::target_group::{GroupKind, HealthCheck, NewTargetGroup, TargetGroup};
use super::{Elbv2, Outcome, Pairs, target_groups_wire as wire};

impl Elbv2 {
    /// Every target group of the region, whatever its kind, because all kinds share their names.
    pub async fn target_groups(&self) -> Outcome<Vec<TargetGroup>> {
        let mut groups = Vec::new();
        let mut marker = None;
        loop {
            let call = self.client.describe_target_groups().page_size(PAGE).set_marker(marker);
            let page = self.caller.call_again("DescribeTargetGroups", || call.clone().send()).await?;
            groups.extend(page.target_groups.unwrap_or_default().into_iter().map(wire::target_group));
            marker = next_marker(page.next_marker);
            if marker.is_none() {
                return Ok(groups);
            }
        }
    }

    /// The target group of that name.
    pub async fn target_group_named(&self, name: &str) -> Outcome<Option<TargetGroup>> {
        let call = self.client.describe_target_groups().names(name);
        match self.caller.call_again("DescribeTargetGroups", || call.clone().send()).await {
            Ok(page) => Ok(page.target_groups.unwrap_or_default().into_iter().next().map(wire::target_group)),
            Err(error) if error.is("TargetGroupNotFound") => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// AWS's words if it knows no target group with that ARN; `None` if there is one.
    pub async fn why_no_target_group(&self, arn: &str) -> Outcome<Option<String>> {
        let call = self.client.describe_target_groups().target_group_arns(arn);
        match self.caller.call_again("DescribeTargetGroups", || call.clone().send()).await {
            Ok(_) => Ok(None),
            // An ARN of another region or form is no less wrong than one that is not there.
            Err(error) if matches!(error.class, Class::NotFound | Class::Invalid) => Ok(Some(error.message)),
            Err(error) => Err(error),
        }
    }

    /// Creates a target group. AWS answers with an existing one of the same name and settings, so check whose it is.
    pub async fn create_target_group(&self, new: &NewTargetGroup) -> Outcome<TargetGroup> {
        let (kind, check) = (&new.kind, &new.health_check);
        let call = self
            .client
            .create_target_group()
            .name(&new.name)
            .vpc_id(&kind.vpc)
            .target_type(wire::target_type(kind.target_type))
            .protocol(kind.protocol.to_aws())
            .protocol_version(wire::version(kind.version))
            .port(kind.port.into())
            .set_target_control_port(kind.control_port.map(Into::into))
            .ip_address_type(wire::address_type(kind.ipv6))
            .health_check_enabled(true)
            .health_check_protocol(check.protocol.to_aws())
            .health_check_port(wire::health_check_port(check.port))
            .health_check_path(&check.path)
            .health_check_interval_seconds(check.interval.into())
            .health_check_timeout_seconds(check.timeout.into())
            .healthy_threshold_count(check.healthy.into())
            .unhealthy_threshold_count(check.unhealthy.into())
            .matcher(wire::matcher(kind.version, &check.codes))
            .set_tags(Some(super::tags::list(&new.tags)));
        let answer = self.caller.call_again("CreateTargetGroup", || call.clone().send()).await?;
        self.first_result("CreateTargetGroup", answer.target_groups, |group| Some(wire::target_group(group)))
    }

    /// Changes the health check of a group of this kind.
    pub async fn modify_health_check(&self, arn: &str, kind: &GroupKind, check: &HealthCheck) -> Outcome<()> {
        let call = self
            .client
            .modify_target_group()
            .target_group_arn(arn)
            .health_check_enabled(true)
            .health_check_protocol(check.protocol.to_aws())
            .health_check_port(wire::health_check_port(check.port))
            .health_check_path(&check.path)
            .health_check_interval_seconds(check.interval.into())
            .health_check_timeout_seconds(check.timeout.into())
            .healthy_threshold_count(check.healthy.into())
            .unhealthy_threshold_count(check.unhealthy.into())
            .matcher(wire::matcher(kind.version, &check.codes));
        self.caller.call_again("ModifyTargetGroup", || call.clone().send()).await.map(drop)
    }

    /// The attributes of a target group.
    /// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_TargetGroupAttribute.html>
    pub async fn group_attributes(&self, arn: &str) -> Outcome<Pairs> {
        let call = self.client.describe_target_group_attributes().target_group_arn(arn);
        let answer = self.caller.call_again("DescribeTargetGroupAttributes", || call.clone().send()).await?;
        let attributes = answer.attributes.unwrap_or_default().into_iter();
        Ok(attributes.filter_map(|one| Some((one.key?, one.value.unwrap_or_default()))).collect())
    }

    /// Sets attributes of a target group; others stay.
    pub async fn set_group_attributes(&self, arn: &str, attributes: &Pairs) -> Outcome<()> {
        let list =
            attributes.iter().map(|(k, v)| aws::TargetGroupAttribute::builder().key(k).value(v).build()).collect();
        let call = self.client.modify_target_group_attributes().target_group_arn(arn).set_attributes(Some(list));
        self.caller.call_again("ModifyTargetGroupAttributes", || call.clone().send()).await.map(drop)
    }

    /// Deletes a target group; deleting one that is gone succeeds.
    pub async fn delete_target_group(&self, arn: &str) -> Outcome<()> {
        let call = self.client.delete_target_group().target_group_arn(arn);
        self.accept_gone(arn, self.caller.call_again("DeleteTargetGroup", || call.clone().send()).await).await
    }
}
