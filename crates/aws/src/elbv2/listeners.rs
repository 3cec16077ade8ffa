//! Calls about listeners of balancers.

use std::collections::BTreeSet;

use aws_sdk_elasticloadbalancingv2::types as aws;

use super::listener::{Listener, ListenerSettings, MutualAuthentication, Protocol};
use super::pages::{PAGE, next_marker};
use super::{Elbv2, Outcome, Pairs, actions_wire};

impl Elbv2 {
    /// The listeners of a balancer.
    pub async fn listeners(&self, balancer_arn: &str) -> Outcome<Vec<Listener>> {
        let mut listeners = Vec::new();
        let mut marker = None;
        loop {
            let call = self.client.describe_listeners().load_balancer_arn(balancer_arn);
            let call = call.page_size(PAGE).set_marker(marker);
            let page = self.caller.call_again("DescribeListeners", || call.clone().send()).await?;
            listeners.extend(page.listeners.unwrap_or_default().into_iter().filter_map(Listener::from_aws));
            marker = next_marker(page.next_marker);
            if marker.is_none() {
                return Ok(listeners);
            }
        }
    }

    /// Creates a listener. AWS answers with an existing one of the same settings, so check whose it is.
    pub async fn create_listener(
        &self,
        balancer_arn: &str,
        settings: &ListenerSettings,
        tags: &Pairs,
    ) -> Outcome<Listener> {
        let call = self
            .client
            .create_listener()
            .load_balancer_arn(balancer_arn)
            .port(settings.port.into())
            .protocol(settings.protocol.to_aws())
            .set_certificates(settings.certificates())
            .set_ssl_policy(settings.ssl_policy())
            .set_mutual_authentication(settings.mutual_authentication())
            .set_default_actions(Some(actions_wire::to_aws(&settings.default_actions)))
            .set_tags(Some(super::tags::list(tags)));
        let answer = self.caller.call_again("CreateListener", || call.clone().send()).await?;
        self.first_result("CreateListener", answer.listeners, Listener::from_aws)
    }

    /// Sets a listener to exactly this; rules, attributes and further certificates stay.
    pub async fn modify_listener(&self, arn: &str, settings: &ListenerSettings) -> Outcome<Listener> {
        let call = self
            .client
            .modify_listener()
            .listener_arn(arn)
            .port(settings.port.into())
            .protocol(settings.protocol.to_aws())
            .set_certificates(settings.certificates())
            .set_ssl_policy(settings.ssl_policy())
            .set_mutual_authentication(settings.mutual_authentication())
            .set_default_actions(Some(actions_wire::to_aws(&settings.default_actions)));
        let answer = self.caller.call_again("ModifyListener", || call.clone().send()).await?;
        self.first_result("ModifyListener", answer.listeners, Listener::from_aws)
    }

    /// Deletes a listener with its rules; deleting one that is gone succeeds.
    pub async fn delete_listener(&self, arn: &str) -> Outcome<()> {
        let call = self.client.delete_listener().listener_arn(arn);
        self.accept_gone(arn, self.caller.call_again("DeleteListener", || call.clone().send()).await).await
    }

    /// The attributes of a listener.
    /// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_ListenerAttribute.html>
    pub async fn listener_attributes(&self, arn: &str) -> Outcome<Pairs> {
        let call = self.client.describe_listener_attributes().listener_arn(arn);
        let answer = self.caller.call_again("DescribeListenerAttributes", || call.clone().send()).await?;
        let attributes = answer.attributes.unwrap_or_default().into_iter();
        Ok(attributes.filter_map(|one| Some((one.key?, one.value.unwrap_or_default()))).collect())
    }

    /// Sets attributes of a listener; others stay.
    pub async fn set_listener_attributes(&self, arn: &str, attributes: &Pairs) -> Outcome<()> {
        let list = attributes.iter().map(|(k, v)| aws::ListenerAttribute::builder().key(k).value(v).build()).collect();
        let call = self.client.modify_listener_attributes().listener_arn(arn).set_attributes(Some(list));
        self.caller.call_again("ModifyListenerAttributes", || call.clone().send()).await.map(drop)
    }

    /// ARNs of the certificates of a listener besides its default one.
    pub async fn certificates(&self, listener_arn: &str) -> Outcome<BTreeSet<String>> {
        let mut certificates = BTreeSet::new();
        let mut marker = None;
        loop {
            let call = self.client.describe_listener_certificates().listener_arn(listener_arn);
            let call = call.page_size(PAGE).set_marker(marker);
            let page = self.caller.call_again("DescribeListenerCertificates", || call.clone().send()).await?;
            let further = page.certificates.unwrap_or_default().into_iter().filter(|it| it.is_default != Some(true));
            certificates.extend(further.filter_map(|certificate| certificate.certificate_arn));
            marker = next_marker(page.next_marker);
            if marker.is_none() {
                return Ok(certificates);
            }
        }
    }

    /// Adds a certificate besides the default one. AWS takes one per call.
    /// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_AddListenerCertificates.html>
    pub async fn add_certificate(&self, listener_arn: &str, certificate: &str) -> Outcome<()> {
        let call = self.client.add_listener_certificates().listener_arn(listener_arn);
        let call = call.certificates(aws::Certificate::builder().certificate_arn(certificate).build());
        self.caller.call_again("AddListenerCertificates", || call.clone().send()).await.map(drop)
    }

    /// Removes a certificate besides the default one. AWS takes one per call.
    /// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_RemoveListenerCertificates.html>
    pub async fn remove_certificate(&self, listener_arn: &str, certificate: &str) -> Outcome<()> {
        let call = self.client.remove_listener_certificates().listener_arn(listener_arn);
        let call = call.certificates(aws::Certificate::builder().certificate_arn(certificate).build());
        self.caller.call_again("RemoveListenerCertificates", || call.clone().send()).await.map(drop)
    }
}

impl Listener {
    /// Converts from AWS's form; `None` for a listener that no Application Load Balancer has.
    fn from_aws(listener: aws::Listener) -> Option<Self> {
        let certificates = listener.certificates.unwrap_or_default();
        Some(Self {
            arn: listener.listener_arn?,
            settings: ListenerSettings {
                port: listener.port.and_then(|port| port.try_into().ok())?,
                protocol: Protocol::from_aws(&listener.protocol?)?,
                certificate: certificates.into_iter().find_map(|certificate| certificate.certificate_arn),
                ssl_policy: listener.ssl_policy.filter(|policy| !policy.is_empty()),
                mutual_authentication: listener.mutual_authentication.and_then(MutualAuthentication::from_aws),
                default_actions: actions_wire::from_aws(listener.default_actions.unwrap_or_default()),
            },
        })
    }
}

impl ListenerSettings {
    fn https(&self) -> bool {
        self.protocol == Protocol::Https
    }

    fn certificates(&self) -> Option<Vec<aws::Certificate>> {
        let certificate = self.certificate.as_ref().filter(|_| self.https())?;
        Some(vec![aws::Certificate::builder().certificate_arn(certificate).build()])
    }

    fn ssl_policy(&self) -> Option<String> {
        self.ssl_policy.clone().filter(|_| self.https())
    }

    /// AWS keeps settings that a change leaves out, so `off` must be sent too.
    fn mutual_authentication(&self) -> Option<aws::MutualAuthenticationAttributes> {
        self.https().then(|| match &self.mutual_authentication {
            None => aws::MutualAuthenticationAttributes::builder().mode("off").build(),
            Some(mode) => mode.to_aws(),
        })
    }
}

impl Protocol {
    pub(super) fn to_aws(self) -> aws::ProtocolEnum {
        match self {
            Self::Http => aws::ProtocolEnum::Http,
            Self::Https => aws::ProtocolEnum::Https,
        }
    }

    pub(super) fn from_aws(protocol: &aws::ProtocolEnum) -> Option<Self> {
        match protocol {
            aws::ProtocolEnum::Http => Some(Self::Http),
            aws::ProtocolEnum::Https => Some(Self::Https),
            _ => None,
        }
    }
}

impl MutualAuthentication {
    fn to_aws(&self) -> aws::MutualAuthenticationAttributes {
        let attributes = aws::MutualAuthenticationAttributes::builder();
        match self {
            Self::Passthrough => attributes.mode("passthrough"),
            Self::Verify { trust_store, ignore_expiry, advertise_authorities } => attributes
                .mode("verify")
                .trust_store_arn(trust_store)
                .ignore_client_certificate_expiry(*ignore_expiry)
                .advertise_trust_store_ca_names(if *advertise_authorities {
                    aws::AdvertiseTrustStoreCaNamesEnum::On
                } else {
                    aws::AdvertiseTrustStoreCaNamesEnum::Off
                }),
        }
        .build()
    }

    fn from_aws(attributes: aws::MutualAuthenticationAttributes) -> Option<Self> {
        match attributes.mode.as_deref() {
            Some("passthrough") => Some(Self::Passthrough),
            Some("verify") => Some(Self::Verify {
                trust_store: attributes.trust_store_arn.unwrap_or_default(),
                ignore_expiry: attributes.ignore_client_certificate_expiry.unwrap_or_default(),
                advertise_authorities: attributes.advertise_trust_store_ca_names
                    == Some(aws::AdvertiseTrustStoreCaNamesEnum::On),
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elbv2::actions_wire::tests::{any_actions, without_secrets};
    use proptest::option;
    use proptest::prelude::*;

    fn any_settings() -> impl Strategy<Value = ListenerSettings> {
        let verify = ("[a-z]{1,4}", any::<bool>(), any::<bool>()).prop_map(|(trust_store, expiry, advertise)| {
            MutualAuthentication::Verify { trust_store, ignore_expiry: expiry, advertise_authorities: advertise }
        });
        let mutual = option::of(prop_oneof![Just(MutualAuthentication::Passthrough), verify]);
        let tls = ("[a-z]{1,4}", "[a-z]{1,4}", mutual);
        (1..u16::MAX, option::of(tls), any_actions()).prop_map(|(port, tls, default_actions)| {
            let (certificate, ssl_policy, mutual_authentication) = match tls.clone() {
                Some((certificate, policy, mutual)) => (Some(certificate), Some(policy), mutual),
                None => (None, None, None),
            };
            let protocol = if tls.is_some() { Protocol::Https } else { Protocol::Http };
            ListenerSettings { port, protocol, certificate, ssl_policy, mutual_authentication, default_actions }
        })
    }

    proptest! {
        #[test]
        fn what_was_written_reads_back_equal(settings in any_settings()) {
            let described = aws::Listener::builder()
                .listener_arn("arn")
                .port(settings.port.into())
                .protocol(settings.protocol.to_aws())
                .set_certificates(settings.certificates())
                .set_ssl_policy(settings.ssl_policy())
                .set_mutual_authentication(settings.mutual_authentication())
                .set_default_actions(Some(actions_wire::to_aws(&settings.default_actions)));
            let read = Listener::from_aws(described.build()).unwrap().settings;
            let default_actions = without_secrets(settings.default_actions);
            prop_assert_eq!(read, ListenerSettings { default_actions, ..settings });
        }
    }
}
