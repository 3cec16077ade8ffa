//! Rules for quantities that are typed wrong: Kubernetes takes them, and no pod or volume ever comes of them.
//! <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/>

use serde_json::{Value, json};

/// No process and no file system has room in less.
const LEAST: &str = "1Mi";
/// No machine has more cores.
const MOST_CORES: &str = "1k";

/// The rules for a size of storage. With `may_be_none`, it may be 0.
pub fn size(field: &str, may_be_none: bool) -> Value {
    let (first, message) = if may_be_none {
        ("!quantity(self).isLessThan(quantity('0'))", format!("{field} must be a quantity such as 100Gi"))
    } else {
        ("quantity(self).isGreaterThan(quantity('0'))", format!("{field} must be a positive quantity such as 10Gi"))
    };
    let too_small = too_small("self");
    json!([
        { "rule": format!("isQuantity(self) && {first}"), "message": message },
        {
            "rule": format!("!isQuantity(self) || !({too_small})"),
            "message": format!("{field} must be at least {LEAST}: m is thousandths of a byte"),
            "messageExpression": format!("'{field}: ' + {}", hint("self")),
        },
    ])
}

/// The rules for amounts of a container's resources, by name.
pub fn resources() -> Value {
    let bytes = |name: &str| {
        let value = format!("string(self['{name}'])");
        json!({
            "rule": format!("!('{name}' in self) || !isQuantity({value}) || !({})", too_small(&value)),
            "message": format!("{name} must be at least {LEAST}: m is thousandths of a byte"),
            "messageExpression": format!("'{name}: ' + {}", hint(&value)),
        })
    };
    let cpu = "string(self['cpu'])";
    json!([
        {
            "rule": "self.all(k, k.size() <= 63)",
            "message": "names of resources must have at most 63 characters, such as cpu or memory",
        },
        bytes("memory"),
        bytes("ephemeral-storage"),
        {
            "rule": format!(
                "!('cpu' in self) || !isQuantity({cpu}) || !quantity({cpu}).isGreaterThan(quantity('{MOST_CORES}'))"
            ),
            "message": "cpu must be at most 1000 cores: m is thousandths of a core",
            "messageExpression": format!(
                "'cpu: ' + {cpu} + ' is more than 1000 cores: ' + ({cpu}.matches('^[0-9]+$') ? {cpu} + 'm is meant, which is \
                 thousandths of a core' : 'memory is meant, or a number of cores such as 500m or 2')"
            ),
        },
    ])
}

fn too_small(value: &str) -> String {
    format!("quantity({value}).isGreaterThan(quantity('0')) && quantity({value}).isLessThan(quantity('{LEAST}'))")
}

/// Returns what is wrong with an amount that is too small, and what is meant.
fn hint(value: &str) -> String {
    format!(
        "{value} + ' is less than {LEAST}: ' + ({value}.endsWith('m') ? 'm is thousandths of a byte, and ' + \
         {value}.replace('m', 'M') + ' or ' + {value}.replace('m', 'Mi') + ' is meant' : 'give it with its suffix, such as 512Mi \
         or 10Gi')"
    )
}
