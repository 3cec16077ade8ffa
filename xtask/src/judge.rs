//! The program that judges what clients saw, built once for each version of its sources.

use std::path::PathBuf;

use anyhow::Result;

use crate::progress::Step;
use crate::{golang, host};

/// The variable with its path for the tests.
pub const VARIABLE: &str = "CAUSEWAY_JUDGE";
const PROGRAM: &str = "judge";

/// The folder of the judge's Go module.
pub fn module() -> Result<PathBuf> {
    Ok(host::repo_root()?.join("tests/judge"))
}

/// The program; built unless the cache has it for these sources.
pub fn build(step: &Step) -> Result<PathBuf> {
    let module = module()?;
    let built = host::cache_dir()?.join("judge").join(host::hash_of(&golang::sources(&module)?)?);
    host::made_once(&built, "the judge", step, |new| golang::compile(&module, &["."], "", new, step))?;
    Ok(built.join(PROGRAM))
}
