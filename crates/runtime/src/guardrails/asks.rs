//! The fields of objects that policies may restrict, with their values: each kind lists its own. Pure.

/// The kind of a value that an object asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// The scheme of a load balancer: internal or internet-facing.
    Scheme,
    /// The subnets of a load balancer.
    Subnet,
    /// The security groups of a load balancer, and those of its targets that let it in.
    SecurityGroup,
    /// Networks and prefix lists that may connect to a load balancer.
    Network,
    /// Certificates of a load balancer.
    Certificate,
    /// The web ACL of a load balancer.
    Waf,
    /// The bucket of a load balancer's logs.
    LogBucket,
    /// The bucket that backups are written to or read from.
    Bucket,
    /// An S3 endpoint other than AWS's.
    Endpoint,
    /// The key that encrypts backups.
    KmsKey,
    /// The image that pods run.
    Image,
    /// The priority class of pods.
    PriorityClass,
    /// Sources that security groups let in which Causeway does not make: any network, so there is no value.
    LetInByGroups,
    /// A target group that is not of the object.
    TargetGroup,
    /// The security policy of an HTTPS listener.
    SslPolicy,
    /// The trust store of a load balancer.
    TrustStore,
    /// A user pool of Cognito.
    UserPool,
    /// The key of a label or annotation of pods.
    PodMetadata,
    /// The service account of pods.
    ServiceAccount,
    /// The type of a Service.
    ServiceType,
    /// The key of an annotation of a Service.
    ServiceAnnotation,
}

/// A value that an object asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The kind of the value.
    pub topic: Topic,
    /// The field that asks for it.
    pub field: String,
    /// The value; `None` if it is determined later and may be anything.
    pub value: Option<String>,
}

/// Returns the ask for one value.
pub fn ask(topic: Topic, field: impl Into<String>, value: impl Into<String>) -> Ask {
    Ask { topic, field: field.into(), value: Some(value.into()) }
}

/// Returns an ask for each of these values of a field.
pub fn asks_for_all<'a>(topic: Topic, field: &'a str, values: &'a [String]) -> impl Iterator<Item = Ask> + 'a {
    values.iter().enumerate().map(move |(at, value)| ask(topic, format!("{field}[{at}]"), value))
}

/// Describes each ask by its topic, field and value, which is `?` if it may be anything.
#[cfg(any(test, feature = "testing"))]
pub fn describe_asks(asks: Vec<Ask>) -> Vec<String> {
    let describe = |ask: Ask| format!("{:?} {} {}", ask.topic, ask.field, ask.value.unwrap_or_else(|| "?".into()));
    asks.into_iter().map(describe).collect()
}
