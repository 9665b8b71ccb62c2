//! Prompts that wait.
