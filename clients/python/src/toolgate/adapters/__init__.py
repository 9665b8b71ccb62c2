"""Toolgate's tools in agent frameworks, one module each: `langchain`, `pydantic_ai`, `openai_agents`.

Each needs its framework, which is an extra of the package: `toolgate[langchain]` for instance. In all of them a call
that has to ask a person stops the run in the framework's own way, and goes on when the run does: hours later, or in
another process. What nobody has allowed does not run.
"""
