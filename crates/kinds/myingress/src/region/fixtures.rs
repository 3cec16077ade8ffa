//! Regions for tests.

use std::collections::BTreeSet;

use aws_credential_types::Credentials;

use causeway_api::myingress::Scheme;
use causeway_aws::budget::Budget;
use causeway_aws::connect;
use causeway_aws::elbv2::{Balancer, Elbv2, IpAddressType, ListenerSettings, Protocol, State};
use causeway_runtime::leader::Fence;
use causeway_runtime::metrics::Metrics;

use super::Region;
use crate::ownership::Owner;

/// A region that knows nothing, whose AWS is at this endpoint.
pub async fn region_at(endpoint: String) -> Region {
    let credentials = Credentials::new("key", "secret", None, None, "test");
    let config = connect::aws().region("us-east-1").credentials_provider(credentials).endpoint_url(endpoint);
    let (config, metrics, fence) = (config.load().await, Metrics::new(), Fence::always_open());
    let elb = Elbv2::new(&config, metrics.clone(), fence.clone(), Budget::without_limit());
    Region::new(&config, &metrics, &fence, Budget::without_limit(), elb, "prod".into())
}

/// An active balancer.
pub fn balancer() -> Balancer {
    Balancer {
        arn: "lb".into(),
        name: "web-alb".into(),
        dns: "web.example".into(),
        zone_id: None,
        scheme: Some(Scheme::Internal),
        state: State::Active,
        vpc: "vpc-1".into(),
        ip_address_type: Some(IpAddressType::Ipv4),
        subnets: BTreeSet::new(),
        security_groups: BTreeSet::new(),
    }
}

/// A listener on that port without a certificate or an action.
pub fn listener_on(port: u16, protocol: Protocol) -> ListenerSettings {
    ListenerSettings {
        port,
        protocol,
        certificate: None,
        ssl_policy: None,
        mutual_authentication: None,
        default_actions: Vec::new(),
    }
}

/// Who owns what is changed.
pub fn owner() -> Owner {
    Owner { cluster: "prod".into(), namespace: "shop".into(), name: "web".into(), uid: "1".into() }
}
