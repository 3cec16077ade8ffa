//! A throw-away server of MySQL or MariaDB. It is made in the work directory, and answers only at a socket there.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::super::child::{Child, Program};
use super::super::{Account, Fetched, How, PROGRAM_SILENCE_TIMEOUT, Side};
use super::{Tools, restore};
use crate::Error;
use crate::restored::Restored;
use crate::secrets::Login;

/// How long it may take to start.
const BEGINNING: Duration = Duration::from_mins(2);
/// How often it is asked whether it is ready.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Restores a backup into it, and compares. Returns the number of rows.
pub async fn verify(fetched: &Fetched, work: &Path) -> Result<u64, Error> {
    let (data, files) = (work.join("server"), work.join("tmp"));
    for directory in [&data, &files] {
        if directory.exists() {
            std::fs::remove_dir_all(directory).map_err(|source| Error::Work { path: directory.clone(), source })?;
        }
    }
    std::fs::create_dir_all(&files).map_err(|source| Error::Work { path: files.clone(), source })?;
    let socket = work.join("server.sock");
    let account = Account {
        side: Side::Scratch,
        kind: "mysql",
        host: socket.display().to_string(),
        port: 3306,
        database: None,
        login: Login { username: Some("root".into()), password: String::new() },
        tls: None,
        own_money: false,
        lifts: false,
    };
    let tools = Tools::find(account).await?;
    let places = [format!("--datadir={}", data.display()), format!("--tmpdir={}", files.display())];
    let (maker, server) = match tools.client {
        "mariadb" => ("mariadb-install-db", "mariadbd"),
        _ if tools.maria => ("mysql_install_db", "mysqld"),
        _ => ("mysqld", "mysqld"),
    };
    let maker = Program::new(maker).args(["--no-defaults"]).args(&places);
    let maker = if tools.maria {
        // `--force`: the program looks up the name of its host, which may have none.
        maker.args(["--auth-root-authentication-method=normal", "--skip-test-db", "--force"])
    } else {
        maker.args(["--initialize-insecure"])
    };
    maker.run(Stdio::null(), PROGRAM_SILENCE_TIMEOUT).await?.map_err(|failure| Side::Scratch.failed(&failure))?;
    // Without these, MySQL needs a directory that its packages make, opens a second socket, and takes 0.5 GiB for statistics.
    let lean = ["--secure-file-priv=NULL", "--mysqlx=OFF", "--performance-schema=OFF"];
    let lean = lean.iter().filter(|_| !tools.maria);
    let server = Program::new(server).args(["--no-defaults"]).args(&places).args(lean).args([
        "--skip-networking",
        "--skip-log-bin",
        "--event-scheduler=OFF",
        "--innodb-flush-log-at-trx-commit=0",
        "--max-allowed-packet=1G",
        &format!("--socket={}", socket.display()),
        &format!("--pid-file={}", work.join("server.pid").display()),
    ]);
    let mut server = server.start(Stdio::null())?;
    begun(&mut server, &tools).await?;
    let how = How::verification(work);
    let Restored { keys, note } = restore(&tools.account, fetched, &how).await?;
    tracing::info!(rows = keys, note, "verified");
    Ok(keys)
}

async fn begun(server: &mut Child, tools: &Tools) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        let message = match tools.log_in().await {
            Ok(_) => return Ok(()),
            Err(error) => error.to_string(),
        };
        if server.has_ended() {
            return Err(Side::Scratch.failed(&server.failure().await));
        }
        if begun.elapsed() > BEGINNING {
            let (address, seconds) = (tools.account.host.clone(), BEGINNING.as_secs());
            return Err(Error::ScratchNotReady { address, seconds, message });
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
