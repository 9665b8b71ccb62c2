//! The looks of the screen, with colours or without.

use ratatui::style::{Color, Modifier, Style};

/// Gives looks. Without colours only weights are left: what a colour says stands beside it as a word or a sign.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    has_colours: bool,
}

impl Theme {
    pub(super) fn new(has_colours: bool) -> Self {
        Self { has_colours }
    }

    fn colour(self, colour: Color) -> Style {
        let style = Style::default();
        if self.has_colours { style.fg(colour) } else { style }
    }

    pub(super) fn plain(self) -> Style {
        Style::default()
    }

    pub(super) fn bold(self) -> Style {
        Style::default().add_modifier(Modifier::BOLD)
    }

    pub(super) fn dim(self) -> Style {
        Style::default().add_modifier(Modifier::DIM)
    }

    pub(super) fn command(self) -> Style {
        self.colour(Color::Cyan)
    }

    pub(super) fn good(self) -> Style {
        self.colour(Color::Green)
    }

    pub(super) fn bad(self) -> Style {
        self.colour(Color::Red)
    }

    pub(super) fn warning(self) -> Style {
        self.colour(Color::Yellow)
    }

    /// A key that does something now.
    pub(super) fn key(self) -> Style {
        self.warning().add_modifier(Modifier::BOLD)
    }

    /// What must not be overlooked.
    pub(super) fn alarm(self) -> Style {
        self.bad().add_modifier(Modifier::BOLD)
    }
}
