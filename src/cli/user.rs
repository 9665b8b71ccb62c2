//! Who answers prompts on this terminal: the name of its user.
//!
//! *Invariant:* a name for people, which proves nothing.

#![allow(clippy::disallowed_methods)] // reads the list of users of this machine

/// Returns the name under which replies are recorded.
pub(super) fn user_name() -> String {
    let named = ["USER", "LOGNAME"]
        .into_iter()
        .filter_map(|name| std::env::var(name).ok());
    let uid = rustix::process::geteuid().as_raw();
    let users = || std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut named = named.filter(|name| !name.is_empty());
    named.next().unwrap_or_else(|| name_of(uid, &users()))
}

/// Returns the name of a user in a list of the form of `/etc/passwd`; else the number.
fn name_of(uid: u32, users: &str) -> String {
    let number = uid.to_string();
    let has_number = |line: &&str| line.split(':').nth(2) == Some(&number);
    let line = users.lines().find(has_number);
    let name = line.and_then(|line| line.split(':').next());
    name.map_or_else(|| format!("uid {uid}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names_or_numbers() {
        let users = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n";
        assert_eq!(name_of(1000, users), "ann");
        assert_eq!(name_of(100, users), "uid 100");
    }
}
