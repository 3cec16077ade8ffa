//! Colours for output that people read on a terminal.

/// Writes text in colour if there is a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    /// Whether the output goes to a terminal.
    pub terminal: bool,
}

impl Paint {
    fn with(self, code: u8, text: &str) -> String {
        if self.terminal { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Text about something healthy or added.
    pub fn green(self, text: &str) -> String {
        self.with(32, text)
    }

    /// Text about something unhealthy or removed.
    pub fn red(self, text: &str) -> String {
        self.with(31, text)
    }

    /// Green if `well`, otherwise red.
    pub fn health(self, well: bool, text: &str) -> String {
        if well { self.green(text) } else { self.red(text) }
    }

    /// A heading.
    pub fn strong(self, text: &str) -> String {
        self.with(1, text)
    }
}
