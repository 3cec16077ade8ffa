//! AWS's message when it denies a call: without the parts that differ in every call, and with what to do about it.

/// AWS's message without request ids, EC2's encoded details and session names. The rest stays the same from try to try,
/// so a status that contains it is not written again and again.
///
/// EC2's details: <https://docs.aws.amazon.com/STS/latest/APIReference/API_DecodeAuthorizationMessage.html>
pub fn lasting_text(text: &str) -> String {
    let text = text.split("Encoded authorization failure message").next().unwrap_or_default();
    let text = without_request_ids(text);
    without_sessions(text.trim())
}

/// Tells the user what to do about a denial, with AWS's own message if it gives a reason.
pub fn explain(service: &str, operation: &str, words: &str) -> String {
    let Some(action) = denied_action(words) else {
        let action = format!("{service}:{}", permission(service, operation));
        let policy = policy(&action);
        return format!(
            "AWS denies it without a reason ({words}): allow {action} for the operator's IAM role (see iam/{policy})"
        );
    };
    let words = words.trim_end_matches('.');
    if words.contains("explicit deny") {
        return format!(
            "AWS denies it: {words}. An Allow does not undo that: look for the Deny in the policy it names"
        );
    }
    let policy = policy(action);
    format!("AWS denies it: {words}. Compare the operator's IAM role with iam/{policy}: its action, resource and tags")
}

/// The action that AWS says the caller may not perform. It may differ from the call's own action, because AWS does
/// things in the caller's name.
fn denied_action(words: &str) -> Option<&str> {
    let (_, rest) = words.split_once("not authorized to perform: ")?;
    rest.split_whitespace().next()
}

/// IAM's name of the permission for an operation. S3 has names of its own.
/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html>
fn permission<'a>(service: &str, operation: &'a str) -> &'a str {
    match (service, operation) {
        ("s3", "GetPublicAccessBlock") => "GetBucketPublicAccessBlock",
        ("s3", "PutPublicAccessBlock") => "PutBucketPublicAccessBlock",
        ("s3", "GetBucketEncryption") => "GetEncryptionConfiguration",
        ("s3", "PutBucketEncryption") => "PutEncryptionConfiguration",
        ("s3", "GetBucketLifecycleConfiguration") => "GetLifecycleConfiguration",
        ("s3", "PutBucketLifecycleConfiguration") => "PutLifecycleConfiguration",
        ("s3", "ListObjectsV2" | "HeadBucket") => "ListBucket",
        ("s3", "ListMultipartUploads") => "ListBucketMultipartUploads",
        ("s3", "DeleteObjects") => "DeleteObject",
        _ => operation,
    }
}

/// The file of `iam/` that grants an action.
fn policy(action: &str) -> &'static str {
    match action.split_once(':') {
        Some(("s3" | "kms", _)) => "policy-backup-operator.json",
        Some(("elasticloadbalancing", name)) if !name.eq_ignore_ascii_case("SetWebAcl") => "policy.json",
        _ => "policy-network.json",
    }
}

/// Services that answer for others add `(Service: …; Status Code: 403; Request ID: …)`, some `status code: 403, request id: …`.
fn without_request_ids(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, bracketed)) = rest.split_once('(') {
        let (inside, after) = bracketed.split_once(')').unwrap_or((bracketed, ""));
        if names_a_request(inside).is_some() {
            kept.push_str(before.trim_end());
        } else {
            kept.push_str(before);
            kept.push('(');
            kept.push_str(&bracketed[..bracketed.len() - after.len()]);
        }
        rest = after;
    }
    kept.push_str(rest);
    if let Some(at) = names_a_request(&kept) {
        kept.truncate(at);
    }
    kept.trim_end_matches([',', ';', ' ', '\n', '\t']).to_owned()
}

/// The place where a text begins to mention a request id, or the status before it.
fn names_a_request(text: &str) -> Option<usize> {
    let lower = text.to_ascii_lowercase();
    let id = ["request id:", "requestid:", "request-id:"].iter().filter_map(|it| lower.find(it)).min()?;
    Some(lower[..id].rfind("status code:").unwrap_or(id))
}

/// `assumed-role/causeway/1732365432` becomes `assumed-role/causeway`: the session name changes with the credentials.
fn without_sessions(text: &str) -> String {
    const ROLE: &str = ":assumed-role/";
    let mut kept = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(ROLE) {
        let (before, arn) = rest.split_at(at + ROLE.len());
        let end = arn.find(char::is_whitespace).unwrap_or(arn.len());
        let (name, after) = arn.split_at(end);
        kept.push_str(before);
        kept.push_str(name.split('/').next().unwrap_or_default());
        rest = after;
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: &str = "User: arn:aws:sts::111122223333:assumed-role/causeway/1732365432 is not authorized to perform: \
        ec2:GetSecurityGroupsForVpc on resource: arn:aws:ec2:eu-west-1:111122223333:vpc/vpc-1 because no identity-based \
        policy allows the ec2:GetSecurityGroupsForVpc action";

    #[test]
    fn awss_words_are_kept_with_the_action_that_it_names() {
        let message = explain("elasticloadbalancing", "CreateLoadBalancer", &lasting_text(GROUPS));
        assert_eq!(
            message,
            "AWS denies it: User: arn:aws:sts::111122223333:assumed-role/causeway is not authorized to perform: \
             ec2:GetSecurityGroupsForVpc on resource: arn:aws:ec2:eu-west-1:111122223333:vpc/vpc-1 because no \
             identity-based policy allows the ec2:GetSecurityGroupsForVpc action. Compare the operator's IAM role with \
             iam/policy-network.json: its action, resource and tags"
        );
        let own = GROUPS.replace("ec2:GetSecurityGroupsForVpc", "elasticloadbalancing:SetRulePriorities");
        assert!(explain("elasticloadbalancing", "SetRulePriorities", &own).contains("iam/policy.json"));
    }

    #[test]
    fn a_deny_is_not_undone_by_an_allow() {
        let denied = "User: a is not authorized to perform: elasticloadbalancing:CreateLoadBalancer on resource: b with an \
                      explicit deny in a service control policy";
        let message = explain("elasticloadbalancing", "CreateLoadBalancer", denied);
        assert!(message.contains("in a service control policy. An Allow does not undo that"), "{message}");
    }

    #[test]
    fn a_denial_without_a_reason_names_the_permission() {
        let message = explain("s3", "PutBucketEncryption", "Access Denied");
        assert!(message.contains("(Access Denied): allow s3:PutEncryptionConfiguration"), "{message}");
        assert!(message.contains("iam/policy-backup-operator.json"), "{message}");
    }

    #[test]
    fn what_changes_from_call_to_call_is_cut() {
        let first = format!(
            "You are not authorized to perform this operation. {GROUPS}. Encoded authorization failure message: aX9_"
        );
        let second = first.replace("aX9_", "Zk-3").replace("1732365432", "1732369999");
        assert_eq!(lasting_text(&first), lasting_text(&second));
        assert!(lasting_text(&first).ends_with("the ec2:GetSecurityGroupsForVpc action."), "{}", lasting_text(&first));
        let proxied = "You cannot (yet) do this (Service: Ec2, Status Code: 403, Request ID: 1-2-3) here";
        assert_eq!(lasting_text(proxied), "You cannot (yet) do this here");
        assert_eq!(lasting_text("no such thing\n\tstatus code: 403, request id: 1-2-3"), "no such thing");
        assert_eq!(lasting_text("no such thing, request id: 1-2-3"), "no such thing");
    }

    #[test]
    fn what_names_a_thing_is_kept() {
        for text in [
            "Certificate 'arn:aws:acm:eu-west-1:111122223333:certificate/0b1c-22' not found",
            "one (two",
            "one) two",
            "",
            "User: arn:aws:iam::111122223333:user/ann",
        ] {
            assert_eq!(lasting_text(text), text);
        }
    }
}
