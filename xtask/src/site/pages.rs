//! The pages of the site, their order, and their names.

/// A part of the table of contents.
pub struct Part {
    pub title: &'static str,
    /// The title of each page, and its file in the repository.
    pub pages: &'static [(&'static str, &'static str)],
}

/// The first page.
pub const FIRST: (&str, &str) = ("Causeway", "README.md");

/// All other pages, except generated ones.
pub const PARTS: &[Part] = &[
    Part {
        title: "Begin",
        pages: &[
            ("Install on EKS", "docs/install.md"),
            ("Tutorial", "docs/tutorial.md"),
            ("On a real account", "docs/real-aws.md"),
        ],
    },
    Part {
        title: "Kinds",
        pages: &[
            ("MyIngress", "docs/myingress.md"),
            ("Features of MyIngress", "docs/features-myingress.md"),
            ("DatabaseBackup and DatabaseRestore", "docs/databasebackup.md"),
            ("EtcdCluster", "docs/etcdcluster.md"),
            ("Redis", "docs/redis.md"),
            ("Clients of Redis and etcd", "docs/clients.md"),
            ("MyApp", "docs/myapp.md"),
            ("How fields are named", "docs/api.md"),
        ],
    },
    Part {
        title: "Coming from",
        pages: &[
            ("AWS Load Balancer Controller", "docs/coming-from-lbc.md"),
            ("ACK", "docs/coming-from-ack.md"),
            ("k8up", "docs/coming-from-k8up.md"),
            ("A Redis chart", "docs/coming-from-redis-chart.md"),
        ],
    },
    Part {
        title: "Run it",
        pages: &[
            ("Operations", "docs/operations.md"),
            ("kubectl causeway", "docs/plugin.md"),
            ("causeway plan", "docs/plan.md"),
            ("Dashboards", "docs/dashboards.md"),
            ("Runbooks", "docs/runbooks.md"),
            ("Security", "docs/security.md"),
            ("Benchmarks", "docs/benchmarks.md"),
            ("Changes", "CHANGELOG.md"),
        ],
    },
    Part {
        title: "Change it",
        pages: &[
            ("Architecture and glossary", "ARCHITECTURE.md"),
            ("Contributing", "CONTRIBUTING.md"),
            ("Tests", "docs/tests.md"),
        ],
    },
];

/// All pages: titles and files.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    std::iter::once(FIRST).chain(PARTS.iter().flat_map(|part| part.pages.iter().copied()))
}

/// The name of a page in the site; `None` if the file is no page.
pub fn name_of(file: &str) -> Option<String> {
    let (_, file) = all().find(|(_, page)| *page == file)?;
    let name = file.rsplit('/').next().unwrap_or(file);
    Some(if name == "README.md" { "introduction.md".into() } else { name.to_lowercase() })
}

/// The table of contents. `generated` has the titles and names of generated pages.
pub fn summary(generated: &[(String, String)]) -> String {
    let entry = |title: &str, name: &str| format!("- [{title}]({name})");
    let mut lines = vec!["# Summary".into(), format!("[{}]({})", FIRST.0, name_of(FIRST.1).unwrap_or_default())];
    for part in PARTS {
        lines.push(format!("# {}", part.title));
        lines.extend(part.pages.iter().map(|(title, file)| entry(title, &name_of(file).unwrap_or_default())));
    }
    lines.push("# Reference".into());
    lines.extend(generated.iter().map(|(title, name)| entry(title, name)));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::host;

    #[test]
    fn every_page_of_the_documentation_is_in_the_site_once() {
        let docs = host::repo_root().unwrap().join("docs");
        let paths = fs::read_dir(docs).unwrap().map(|entry| entry.unwrap().path());
        let pages = paths.filter(|path| path.extension().is_some_and(|it| it == "md"));
        let there: BTreeSet<String> =
            pages.map(|path| format!("docs/{}", path.file_name().unwrap().to_string_lossy())).collect();
        let listed: Vec<_> = all().map(|(_, file)| file.to_owned()).filter(|file| file.starts_with("docs/")).collect();
        assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), there);
        assert_eq!(listed.len(), there.len(), "{listed:?}");
    }

    #[test]
    fn two_pages_have_two_names() {
        let names: BTreeSet<_> = all().map(|(_, file)| name_of(file).unwrap()).collect();
        assert_eq!(names.len(), all().count(), "{names:?}");
        assert_eq!(name_of("iam/README.md"), None);
    }
}
