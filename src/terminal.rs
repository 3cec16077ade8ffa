//! Colours, for what people read on a terminal.

/// Colours of a terminal, or none.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    /// Whether there is a terminal.
    pub terminal: bool,
}

impl Paint {
    fn with(self, code: u8, text: &str) -> String {
        if self.terminal { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// What is well, or comes.
    pub fn green(self, text: &str) -> String {
        self.with(32, text)
    }

    /// What is not well, or goes.
    pub fn red(self, text: &str) -> String {
        self.with(31, text)
    }

    /// Text about something that is well, or is not.
    pub fn health(self, well: bool, text: &str) -> String {
        if well { self.green(text) } else { self.red(text) }
    }

    /// A heading.
    pub fn strong(self, text: &str) -> String {
        self.with(1, text)
    }
}
