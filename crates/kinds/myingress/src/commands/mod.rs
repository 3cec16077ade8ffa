//! Commands that run beside the operator: `causeway plan` and `causeway orphans`.

pub mod orphans;
pub mod plan;
