//! Argo CD's health check for our objects: one Lua script for all kinds.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use crate::{crds, host};

/// The Debian package with the interpreter. Argo CD's interpreter implements Lua 5.1 as well:
/// <https://github.com/yuin/gopher-lua>
pub const PACKAGE: &str = "lua5.1";

/// The path of the script.
const SCRIPT: &str = "deploy/argocd/health.lua";

/// Groups and kinds of all objects, from their definitions.
pub fn kinds() -> Result<Vec<(String, String)>> {
    let kind = |definition: Value| {
        let part = |path: &str| definition.pointer(path).and_then(Value::as_str).map(ToOwned::to_owned);
        let name = &definition["metadata"]["name"];
        part("/spec/group").zip(part("/spec/names/kind")).with_context(|| format!("{name} has no group or no kind"))
    };
    crds::parsed()?.into_iter().map(kind).collect()
}

fn script() -> Result<String> {
    fs::read_to_string(host::repo_root()?.join(SCRIPT)).with_context(|| format!("cannot read {SCRIPT}"))
}

/// The content of Argo CD's ConfigMap `argocd-cm`:
/// <https://argo-cd.readthedocs.io/en/stable/operator-manual/health/#way-1-define-a-custom-health-check-in-argocd-cm-configmap>
pub fn customizations() -> Result<String> {
    let script: String =
        script()?.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") }).collect();
    let mut patch =
        String::from("# kubectl -n argocd patch configmap argocd-cm --type merge --patch-file argocd-cm.yaml\ndata:\n");
    for (group, kind) in kinds()? {
        write!(patch, "  resource.customizations.health.{group}_{kind}: |\n{script}")?;
    }
    Ok(patch)
}

/// The script's result for an object: status and message.
pub fn health(object: &Value) -> Result<(String, String)> {
    let mut lua = Command::new("lua5.1")
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start lua5.1")?;
    let program = format!(
        "local function health(obj)\n{}\nend\nlocal it = health({})\nio.write(it.status, '\\n', it.message or '')",
        script()?,
        literal(object)
    );
    if let Some(mut input) = lua.stdin.take() {
        input.write_all(program.as_bytes())?;
    }
    let output = lua.wait_with_output()?;
    if !output.status.success() {
        bail!("{SCRIPT}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let answer = String::from_utf8(output.stdout)?;
    let (status, message) = answer.split_once('\n').unwrap_or((&answer, ""));
    Ok((status.to_owned(), message.to_owned()))
}

/// JSON as a Lua literal.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "nil".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => text_literal(text),
        Value::Array(items) => format!("{{{}}}", items.iter().map(literal).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => table(fields),
    }
}

fn table(fields: &Map<String, Value>) -> String {
    let field = |(name, value): (&String, &Value)| format!("[{}]={}", text_literal(name), literal(value));
    format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(","))
}

/// Bytes that Lua would not accept literally are written as numbers: <https://www.lua.org/manual/5.1/manual.html#2.1>
fn text_literal(text: &str) -> String {
    let letter = |byte: u8| match byte {
        b' '..=b'~' if byte != b'"' && byte != b'\\' => char::from(byte).to_string(),
        _ => format!("\\{byte:03}"),
    };
    format!("\"{}\"", text.bytes().map(letter).collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_becomes_lua() {
        let value = json!({ "a\"b": [1, true, null, "zwölf\n"] });
        assert_eq!(literal(&value), r#"{["a\034b"]={1,true,nil,"zw\195\182lf\010"}}"#);
    }

    #[test]
    fn every_kind_has_the_script() -> Result<()> {
        let patch = customizations()?;
        for kind in ["demo.rtfm.co.ua_CausewayPolicy", "mycompany.com_EtcdCluster", "example.com_Redis"] {
            assert!(
                patch.contains(&format!("\n  resource.customizations.health.{kind}: |\n    -- The health")),
                "{patch}"
            );
        }
        Ok(())
    }
}
