"""An agent for the terminal, made to be copied: any OpenAI-compatible model, and the tools of Toolgate."""
