//! Dumps a server of PostgreSQL that was recovered from a base backup: for a restore, or to prove that all of it can be read.

use std::io::Write;
use std::path::Path;

use tokio_util::bytes::Bytes;

use causeway_api::databasebackup::Method;

use super::{PACK, Splitter, SqlDump, postgres};
use crate::Error;
use crate::manifest::{Contents, Manifest};
use crate::plan::{RestorePlan, kind_of};

/// The fact that says when the last transaction was committed that the recovered server has.
pub const REACHED: &str = "reached";

/// Recovers a server from a base backup and its log, and dumps its databases to where a restore expects them. Returns the
/// manifest of that dump.
pub async fn recover(plan: &RestorePlan, manifest: &Manifest) -> Result<Manifest, Error> {
    let until = plan.recovery.as_ref().and_then(|it| it.until);
    let recovered = postgres::recover(&plan.work, manifest, until).await?;
    let pack = plan.work.join(PACK);
    let failed = |source| Error::of_file(pack.clone(), source, manifest.size);
    let mut files = Splitter::new(&pack).map_err(failed)?;
    let (version, mut contents) = dump_all(&recovered, |bytes| files.write_all(&bytes).map_err(failed)).await?;
    files.finish().map_err(failed)?;
    let reached = recovered.reached.map(|reached| (REACHED.to_owned(), reached.to_string()));
    contents.facts.extend(reached);
    recovered.throw_away().await?;
    Ok(Manifest { kind: kind_of(Method::Dump).into(), version, contents, ..manifest.clone() })
}

/// Recovers a server from a base backup, and reads all of its databases. Returns the number of rows.
pub async fn verify_base(work: &Path, manifest: &Manifest) -> Result<u64, Error> {
    let recovered = postgres::recover(work, manifest, None).await?;
    let (_, contents) = dump_all(&recovered, |_| Ok(())).await?;
    tracing::info!(rows = contents.keys, "verified");
    Ok(contents.keys)
}

/// Dumps all databases of a server. Returns its version and what they hold.
async fn dump_all(
    recovered: &postgres::Recovered,
    mut write: impl FnMut(Bytes) -> Result<(), Error>,
) -> Result<(String, Contents), Error> {
    let mut dump = SqlDump::databases(recovered.account.clone()).await?;
    while let Some(bytes) = dump.next().await? {
        write(bytes)?;
    }
    Ok(dump.finish())
}
