"""Makes a call by the package as it is installed."""

from toolgate import Client

with Client() as client:
    print(client.run("bash", {"command": "echo hello from a call", "description": "Greets"}).text)
