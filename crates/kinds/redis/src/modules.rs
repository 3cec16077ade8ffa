//! Modules that keep a node from starting. Pure.

/// Explains what to do about a node whose log ended with these lines; `None` if they are not about modules.
/// <https://github.com/redis/redis/blob/7.0/src/module.c>, <https://github.com/redis/redis/blob/7.0/src/rdb.c>
pub fn trouble(pod: &str, last_words: &str) -> Option<String> {
    let line = |begin: &str| last_words.lines().rev().find_map(|line| Some(&line[line.find(begin)?..]));
    if let Some(refusal) = line("Can't load module from ") {
        let why = line("Module ").map_or_else(String::new, |why| format!(" ({why})"));
        return Some(format!(
            "pod {pod} does not start: Redis says \"{refusal}\"{why}: check spec.modules, and that the image has that library for \
             its version of Redis; kubectl logs {pod} --previous has all that it said"
        ));
    }
    // "The RDB file contains module data I can't load", or "… AUX module data …".
    let lacking = line("The RDB file contains ").filter(|line| line.contains("module data I can't load"));
    if let Some(lacking) = lacking {
        return Some(format!(
            "pod {pod} does not start: Redis says \"{lacking}\": name the module in spec.modules again, and delete its keys before \
             you take it out; a node without it cannot read them"
        ));
    }
    let unknown = line("Unknown command '").filter(|line| line.contains("reading the append only file"))?;
    Some(format!(
        "pod {pod} does not start: Redis says \"{unknown}\": if the command is of a module, name that in spec.modules again, and delete its \
         keys before you take it out; if it is of a later version, go back to that"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_module_is_reported_with_log_and_field() {
        let missing = "1:M 26 Nov 2026 # Module /m/none.so failed to load: /m/none.so: cannot open shared object file\n\
                       1:M 26 Nov 2026 # Can't load module from /m/none.so: server aborting\n";
        let text = trouble("cache-1", missing).expect("trouble");
        for part in ["spec.modules", "\"Can't load module from /m/none.so: server aborting\"", "cannot open shared"] {
            assert!(text.contains(part), "{text}");
        }
        let lacking =
            "1:S # The RDB file contains AUX module data I can't load: no matching module 'search'\n1:S # Fatal";
        assert!(
            trouble("cache-1", lacking)
                .is_some_and(|text| text.contains("'search'\": name the module in spec.modules"))
        );
        let lacking = "1:S # The RDB file contains module data I can't load: no matching module type 'ft_index0'";
        assert!(trouble("cache-1", lacking).is_some());
        let command = "1:S # Unknown command 'FT.ADD' reading the append only file appendonly.aof.1.incr.aof";
        assert!(
            trouble("cache-1", command).is_some_and(|text| text.contains("'FT.ADD'") && text.contains("spec.modules"))
        );
        assert_eq!(trouble("cache-1", "The RDB file contains a function\nBad file format"), None);
    }
}
