//! The user's consent to changes in an account, given by typing its id.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::{Result, bail};

/// Returns only if the user named that account: by an option, or as the answer to a question.
pub fn ask(account: &str, given: Option<&str>) -> Result<()> {
    if let Some(given) = given {
        return judge(account, given);
    }
    if !io::stdin().is_terminal() {
        bail!("no terminal is there for your consent: give --yes {account}");
    }
    print!("Type the account's id ({account}) to go on: ");
    io::stdout().flush()?;
    let mut typed = String::new();
    io::stdin().read_line(&mut typed)?;
    judge(account, typed.trim())
}

fn judge(account: &str, given: &str) -> Result<()> {
    if given != account {
        bail!("{given:?} is not {account}, the account of your credentials: nothing was changed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_account_is_consent() {
        assert!(ask("111122223333", Some("111122223333")).is_ok());
        for other in ["", "y", "yes", "111122223334"] {
            let said = ask("111122223333", Some(other)).unwrap_err().to_string();
            assert!(said.contains("nothing was changed"), "{said}");
        }
    }
}
