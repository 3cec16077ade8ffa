//! Events that no program gets past that dumps: it looks for a delimiter that the text of an event lacks, longer and longer rows of
//! semicolons, but never tries a longer one than two.
//! <https://github.com/MariaDB/server/blob/11.8/client/mysqldump.cc>, `create_delimiter`

use super::super::words::some_of;
use super::{Tools, text};
use crate::Error;

/// The most events that are named.
const NAMED: usize = 3;

/// Checks that these databases have no such event.
pub async fn check(tools: &Tools, databases: &[String]) -> Result<(), Error> {
    let query = "SELECT CONCAT(HEX(event_schema), ' ', HEX(event_name)) FROM information_schema.events WHERE CONCAT_WS(' ', definer, \
                 event_name, event_definition, event_comment) LIKE '%;;%' ORDER BY event_schema, event_name";
    endless(&tools.ask(query).await?, databases, tools.dump).map_or(Ok(()), Err)
}

/// The error if some of the events are in these databases.
fn endless(events: &[String], databases: &[String], dump: &str) -> Option<Error> {
    let names =
        events.iter().filter_map(|row| row.split_once(' ')).map(|(database, event)| (text(database), text(event)));
    let chosen = names.filter(|(database, _)| databases.contains(database));
    let names: Vec<String> = chosen.map(|(database, event)| format!("{database}.{event}")).collect();
    (!names.is_empty()).then(|| {
        Error::ServerUnfit(format!(
            "these events have two semicolons in a row, with which {dump} never ends: {}: ALTER EVENT … DO … with the same text \
             without them, or SELECT CONCAT(';', ';') in place of a text with them, then try again",
            some_of(&names, NAMED)
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_without_an_end_are_named_before_a_dump() {
        let events = ["73686F70 74696479".to_owned(), "62616E6B 636C6F7365".into()];
        let all = ["shop", "bank"].map(str::to_owned);
        let error = endless(&events, &all, "mariadb-dump").expect("an error");
        assert_eq!(error.reason(), "ServerUnfit");
        assert!(error.to_string().contains("mariadb-dump never ends: shop.tidy, bank.close:"), "{error}");
        let error = endless(&events, &all[1..], "mariadb-dump").expect("an error");
        assert!(!error.to_string().contains("shop"), "{error}");
        assert!(endless(&events, &["other".to_owned()], "mariadb-dump").is_none());
    }
}
