//! Reads the names of the objects that a target has.

use super::selection::Present;
use super::session::Session;
use crate::Error;

/// All objects of the database that a part of a backup may need.
pub async fn read(session: &mut Session) -> Result<Present, Error> {
    let schemas = "SELECT nspname FROM pg_catalog.pg_namespace";
    let relations = "SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN \
                     pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')";
    let types = "SELECT n.nspname, t.typname FROM pg_catalog.pg_type t JOIN \
                 pg_catalog.pg_namespace n ON n.oid = t.typnamespace";
    // Named as in the table of contents of a dump.
    let functions = "SELECT n.nspname, p.proname || '(' || pg_catalog.array_to_string(ARRAY(SELECT \
                     pg_catalog.format_type(a.type, NULL) FROM pg_catalog.unnest(p.proargtypes) WITH ORDINALITY AS a (type, at) \
                     ORDER BY a.at), ', ') || ')' FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = \
                     p.pronamespace WHERE n.nspname !~ '^pg_'";
    let extensions = "SELECT extname FROM pg_catalog.pg_extension";
    let one = |rows: Vec<(String,)>| rows.into_iter().map(|(name,)| name).collect();
    Ok(Present {
        schemas: one(session.ask(schemas).await?),
        relations: session.ask(relations).await?.into_iter().collect(),
        types: session.ask(types).await?.into_iter().collect(),
        functions: session.ask(functions).await?.into_iter().collect(),
        extensions: one(session.ask(extensions).await?),
        roles: roles(session).await?,
    })
}

/// The objects of a database that is not made yet: the schema `public`, and the roles of the server.
pub async fn of_none(session: &mut Session) -> Result<Present, Error> {
    let roles = roles(session).await?;
    Ok(Present { schemas: ["public".to_owned()].into(), roles, ..Present::default() })
}

async fn roles(session: &mut Session) -> Result<std::collections::BTreeSet<String>, Error> {
    let query = "SELECT rolname FROM pg_catalog.pg_roles";
    Ok(session.ask::<(String,)>(query).await?.into_iter().map(|(name,)| name).collect())
}
