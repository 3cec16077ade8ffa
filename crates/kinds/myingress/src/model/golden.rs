//! The whole model of the full example.

use kube::ResourceExt;

use causeway_api::MyIngress;

use super::fixtures::{FULL, built};

fn full() -> MyIngress {
    let mut object: MyIngress = serde_saphyr::from_str(FULL).unwrap();
    object.metadata.namespace = Some("shop".into());
    object
}

#[test]
fn the_full_example_becomes_this() {
    let built = built(&[&full()]);
    assert_eq!(built.complaints.into_iter().next(), None);
    insta::assert_debug_snapshot!(built.model.unwrap());
}

#[test]
fn the_full_example_is_what_it_says() {
    let object = full();
    assert_eq!(object.name_any(), "shop");
    let rules: Vec<_> = object.spec.listeners.iter().flat_map(|listener| &listener.rules).collect();
    assert_eq!((object.spec.listeners.len(), rules.len(), object.spec.backends.len()), (2, 6, 3));
    let count =
        |has: fn(&causeway_api::myingress::ActionSpec) -> bool| rules.iter().filter(|it| has(&it.action)).count();
    let kinds = [
        count(|it| it.redirect.is_some()),
        count(|it| it.fixed_response.is_some()),
        count(|it| it.authenticate_oidc.is_some()),
        count(|it| it.authenticate_cognito.is_some()),
        count(|it| it.validate_jwt.is_some()),
    ];
    assert_eq!(kinds, [1; 5]);
}
