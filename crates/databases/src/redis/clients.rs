//! Counts the clients of a node. <https://redis.io/docs/latest/commands/client-list/>

/// A connection without any command counts as a client's from this age on: a client may not have sent its first command
/// yet. A younger one may be a probe of the kubelet.
const UNUSED_SECONDS: u64 = 2;

/// Counts the clients that `CLIENT LIST` names. It does not count the node's master, its replicas, the caller itself,
/// and new connections that have sent nothing.
pub fn count(list: &str) -> usize {
    list.lines().filter(|line| is_client(line)).count()
}

fn is_client(line: &str) -> bool {
    let field = |name: &str| line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    let Some(flags) = field("flags") else { return false };
    let command = field("cmd").unwrap_or_default();
    let is_unused =
        command == "NULL" && field("age").and_then(|age| age.parse().ok()).is_some_and(|age: u64| age < UNUSED_SECONDS);
    // `M` is its master and `S` a replica. Other `CLIENT` commands count: libraries send them as they connect.
    !flags.contains(['M', 'S']) && !is_unused && command != "client|list"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_neither_ourselves_nor_other_nodes_nor_probes() {
        let line = |flags: &str, age: u64, command: &str| {
            format!(
                "id=9 addr=10.0.0.7:4001 laddr=10.0.0.8:6379 fd=8 name= age={age} idle=0 flags={flags} db=0 cmd={command} user=default\n"
            )
        };
        let counted = |flags: &str, age: u64, command: &str| count(&line(flags, age, command));
        assert_eq!([counted("N", 9, "client|list"), counted("N", 0, "NULL")], [0; 2]);
        assert_eq!([counted("M", 9, "replconf"), counted("S", 9, "replconf")], [0; 2]);
        assert_eq!([counted("N", 0, "set"), counted("N", 2, "NULL"), counted("P", 9, "subscribe")], [1; 3]);
        assert_eq!(counted("N", 0, "client|setinfo"), 1);
        assert_eq!(count(&[line("N", 9, "set"), line("N", 9, "client|list"), line("x", 9, "exec")].concat()), 2);
        assert_eq!(count(""), 0);
    }
}
