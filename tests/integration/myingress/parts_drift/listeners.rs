//! Changes of listeners and their certificates.

use aws_sdk_elasticloadbalancingv2::types::{
    Certificate, ListenerAttribute, MutualAuthenticationAttributes, ProtocolEnum,
};

use super::{Change, change, gone_action, https, listeners_of, retag, tags_of};
use crate::support::Scene;

/// The certificate of the account for this domain.
async fn certificate(scene: &Scene, domain: &str) -> Certificate {
    let all = scene.acm().list_certificates().send().await.expect("certificates");
    let mut all = all.certificate_summary_list.unwrap_or_default().into_iter();
    let found = all.find(|it| it.domain_name() == Some(domain)).and_then(|it| it.certificate_arn);
    Certificate::builder().certificate_arn(found.expect("the certificate")).build()
}

pub const CHANGES: &[Change] = &[
    change("port of a listener", "ModifyListener", "listener", |scene, balancer| {
        Box::pin(async move {
            let call = scene.elb.modify_listener().listener_arn(https(scene, balancer).await);
            call.port(8443).send().await.expect("the change");
        })
    }),
    change("protocol of a listener", "ModifyListener", "listener", |scene, balancer| {
        Box::pin(async move {
            let plain = listeners_of(scene, balancer).await[&80].listener_arn.clone();
            let call = scene.elb.modify_listener().set_listener_arn(plain).protocol(ProtocolEnum::Https);
            let call = call.ssl_policy("ELBSecurityPolicy-TLS13-1-2-2021-06");
            call.certificates(certificate(scene, "example.org").await).send().await.expect("the change");
        })
    }),
    change("default action", "ModifyListener", "listener", |scene, balancer| {
        Box::pin(async move {
            let call = scene.elb.modify_listener().listener_arn(https(scene, balancer).await);
            call.default_actions(gone_action()).send().await.expect("the change");
        })
    }),
    change("TLS policy", "ModifyListener", "listener", |scene, balancer| {
        Box::pin(async move {
            let call = scene.elb.modify_listener().listener_arn(https(scene, balancer).await);
            call.ssl_policy("ELBSecurityPolicy-TLS13-1-3-2021-06").send().await.expect("the change");
        })
    }),
    change("mutual authentication", "ModifyListener", "listener", |scene, balancer| {
        Box::pin(async move {
            let passing = MutualAuthenticationAttributes::builder().mode("passthrough").build();
            let call = scene.elb.modify_listener().listener_arn(https(scene, balancer).await);
            call.mutual_authentication(passing).send().await.expect("the change");
        })
    }),
    change("default certificate", "ModifyListener", "certificate", |scene, balancer| {
        Box::pin(async move {
            let call = scene.elb.modify_listener().listener_arn(https(scene, balancer).await);
            call.certificates(certificate(scene, "example.org").await).send().await.expect("the change");
        })
    }),
    change("further certificate", "AddListenerCertificates", "certificate", |scene, balancer| {
        Box::pin(async move {
            let call = scene.elb.add_listener_certificates().listener_arn(https(scene, balancer).await);
            call.certificates(certificate(scene, "example.org").await).send().await.expect("the certificate");
        })
    }),
    change("attribute of a listener", "ModifyListenerAttributes", "listener_attribute", |scene, balancer| {
        Box::pin(async move {
            let key = "routing.http.response.strict_transport_security.header_value";
            let attribute = ListenerAttribute::builder().key(key).value("max-age=1").build();
            let call = scene.elb.modify_listener_attributes().listener_arn(https(scene, balancer).await);
            call.attributes(attribute).send().await.expect("the change");
        })
    }),
    change("tag of a listener", "AddTags", "tag", |scene, balancer| {
        Box::pin(async move { retag(scene, &https(scene, balancer).await).await })
    }),
    change("listener with Causeway's tags, added", "CreateListener", "listener", |scene, balancer| {
        Box::pin(async move {
            let tags = tags_of(scene, &https(scene, balancer).await).await;
            let call = scene.elb.create_listener().load_balancer_arn(balancer).port(8080).protocol(ProtocolEnum::Http);
            call.default_actions(gone_action()).set_tags(Some(tags)).send().await.expect("the listener");
        })
    }),
    change("listener, deleted", "DeleteListener", "listener", |scene, balancer| {
        Box::pin(async move {
            let arn = https(scene, balancer).await;
            scene.elb.delete_listener().listener_arn(arn).send().await.expect("the deletion");
        })
    }),
];
