"""Plays the published SDKs of agent-sandbox against the real program: the one for Python here, the one for Go by a program that is
named on the command line. Every line that it prints is a row: program, version, result, note."""

import asyncio
import importlib.metadata
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback

FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="agent-sandbox.")).resolve()
# The library for Kubernetes looks where its file is when it is loaded.
os.environ["KUBECONFIG"] = str(FOLDER / "kubeconfig")
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from cluster import Cluster, port_of_service

import requests
from k8s_agent_sandbox import SandboxClient
from k8s_agent_sandbox.exceptions import SandboxRequestError
from k8s_agent_sandbox.models import SandboxDirectConnectionConfig

from toolgate import Client, once, reject

TOOLGATE = os.environ["TOOLGATE_BIN"]
TOKEN = "tgt_" + "a" * 40
BYTES = bytes(range(256)) * 5000
NAME = "k8s-agent-sandbox (PyPI)"
VERSION = importlib.metadata.version("k8s-agent-sandbox")


class Service:
    """The program, in folders of its own: everything is allowed but `touch`, about which people are asked, and `forbidden`."""

    def __init__(self, folder, with_tokens):
        self.work, home = folder / "work", folder / "home"
        for made in (self.work, home / ".config/opencode", folder / "data"):
            made.mkdir(parents=True)
        rules = {"bash": {"*": "allow", "touch *": "ask", "forbidden*": "deny"}, "read": {"*": "allow", "hidden": "deny"}}
        (home / ".config/opencode/opencode.json").write_text(json.dumps({"permission": rules}))
        settings = f'data_dir = "{folder}/data"\n[listen]\ntcp = "127.0.0.1:0"\nunix = "none"\nagent_sandbox = true\n'
        settings += f'[[workspaces]]\nname = "default"\ndirectory = "{self.work}"\n'
        self.headers = {}
        if with_tokens:
            tokens = folder / "tokens"
            tokens.write_text(f"sdk {TOKEN} calls.execute,files.read,files.write\nperson {TOKEN[::-1]} *\n")
            tokens.chmod(0o600)
            settings += f'[auth]\ntokens_file = "{tokens}"\n'
            self.headers = {"Authorization": f"Bearer {TOKEN}"}
        (folder / "toolgate.toml").write_text(settings)
        command = [TOOLGATE, "--json", "--config", str(folder / "toolgate.toml"), "serve"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "SHELL": "/bin/bash", "LANG": "C.UTF-8"}
        self.log = (folder / "log").open("w")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, env=environment, cwd=folder)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError((folder / "log").read_text())
        self.url = json.loads(line)["listening"]["tcp"]

    @property
    def address(self):
        host, port = self.url.removeprefix("http://").rsplit(":", 1)
        return host, int(port)

    def person(self):
        return Client(self.url, token=TOKEN[::-1] if self.headers else None)

    def stop(self):
        self.process.terminate()
        assert self.process.wait(60) == 0
        self.log.close()


def raised(kind, work):
    try:
        work()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def works(sandbox, service):
    """What both APIs do."""
    ran = sandbox.commands.run("echo out; echo err >&2; exit 3")
    assert (ran.stdout, ran.exit_code) == ("out\nerr\n", 3), ran
    sandbox.files.write("data/ümlaut name.bin", BYTES)
    assert (service.work / "data/ümlaut name.bin").read_bytes() == BYTES
    assert sandbox.files.read("data/ümlaut name.bin") == BYTES
    sandbox.files.write("streamed", io.BytesIO(BYTES))
    sink = io.BytesIO()
    assert sandbox.files.read_to("streamed", sink) == len(BYTES) and sink.getvalue() == BYTES
    sandbox.files.write("empty", b"")
    assert sandbox.files.read("empty") == b""
    (service.work / "link").unlink(missing_ok=True)
    (service.work / "link").symlink_to("data")
    listed = {entry.name: (entry.type, entry.size) for entry in sandbox.files.list(".")}
    assert listed["streamed"] == ("file", len(BYTES)) and listed["data"][0] == listed["link"][0] == "directory", listed
    assert sandbox.files.list("data")[0].modified.timestamp() > time.time() - 600
    assert sandbox.files.exists("data") and not sandbox.files.exists("nothing/here")
    assert raised(SandboxRequestError, lambda: sandbox.files.read("nothing")).status_code == 404
    (service.work / "hidden").write_text("secret")
    assert raised(SandboxRequestError, lambda: sandbox.files.read("hidden")).status_code == 403
    (service.work / "out").unlink(missing_ok=True)
    (service.work / "out").symlink_to("/etc")
    assert raised(SandboxRequestError, lambda: sandbox.files.read("out/passwd")).status_code == 403
    assert "out" not in {entry.name for entry in sandbox.files.list(".")}
    limited = sandbox.commands.run("sleep 60", command_timeout=1)
    assert limited.timed_out and limited.exit_code == 124, limited


def asks(sandbox, service):
    """A person decides; a refusal is none of the command's results."""
    seen = []

    def answer(prompt):
        seen.append(prompt.permission.patterns)
        return reject("write a file instead") if "no" in str(prompt.permission.patterns) else once()

    with service.person() as person, person.approvals(answer, everybody=True):
        assert sandbox.commands.run("touch yes").exit_code == 0
        assert (service.work / "yes").exists()
        refused = raised((SandboxRequestError, RuntimeError), lambda: sandbox.commands.run("touch no"))
        assert not (service.work / "no").exists()
    assert len(seen) == 2, seen
    denied = raised((SandboxRequestError, RuntimeError), lambda: sandbox.commands.run("forbidden"))
    return refused, denied


def direct(service):
    """The API of the runtime, by the address of the service, with a token."""
    config = SandboxDirectConnectionConfig(api_url=service.url, extra_headers=service.headers)
    client = SandboxClient(connection_config=config)
    sandbox = client.create_sandbox(warmpool="pool")
    works(sandbox, service)
    refused, denied = asks(sandbox, service)
    assert refused.status_code == denied.status_code == 403
    assert "write a file instead" in refused.response.json()["message"]
    # Nobody is there: the SDK hears of it before it hangs up.
    waits = raised(SandboxRequestError, lambda: sandbox.commands.run("touch later", timeout=2))
    assert waits.status_code == 408 and "waits for a person" in waits.response.json()["message"], waits
    if service.headers:
        nobody = requests.post(f"{service.url}/execute", json={"command": "true"}, timeout=10)
        assert nobody.status_code == 401
    with service.person() as person:
        calls = [call for call in person.calls() if call.tool == "bash"]
        assert len({call.session for call in calls}) == 1, calls
    client.delete_sandbox(sandbox.claim_name)


def sandboxd(service):
    """The API of sandboxd, through a Service with a port for each half of it."""
    from k8s_agent_sandbox import SandboxdInClusterConnectionConfig

    rest, grpc = port_of_service(service.address), port_of_service(service.address)
    config = SandboxdInClusterConnectionConfig(mode="in-cluster-service", rest_port=rest, grpc_port=grpc)
    client = SandboxClient(connection_config=config)
    sandbox = client.create_sandbox(warmpool="pool")
    works(sandbox, service)
    _, denied = asks(sandbox, service)
    assert "PERMISSION_DENIED" in str(denied), denied
    sandbox.files.write("work/f", b"x")
    assert sandbox.commands.run("pwd; echo $GREETING", env={"GREETING": "hi"}, cwd="work").stdout == f"{service.work}/work\nhi\n"
    assert raised(SandboxRequestError, lambda: sandbox.files.delete("work")).status_code == 409
    sandbox.files.delete("work", recursive=True)
    assert not (service.work / "work").exists()
    waits = raised(RuntimeError, lambda: sandbox.commands.run("touch later", timeout=2))
    assert "DEADLINE_EXCEEDED" in str(waits), waits
    client.delete_sandbox(sandbox.claim_name)


def interactive(service):
    """`Start` of `process.v1`, by the stubs that the SDK brings."""
    import grpc
    from k8s_agent_sandbox.commands._process_stubs import process_pb2 as messages, process_pb2_grpc

    host, port = service.address
    with grpc.insecure_channel(f"{host}:{port}") as channel:
        stub = process_pb2_grpc.ProcessServiceStub(channel)

        def start(*command, **request):
            config = messages.ProcessConfig(command=command)
            events = stub.Start(messages.StartRequest(config=config, **request), timeout=60)
            return next(events).init.process_id, events

        process, events = start("/bin/sh", "-c", "read line; echo got $line; cat; exit 4")
        stub.WriteStdin(messages.WriteStdinRequest(process_id=process, input=b"first\n"))
        assert next(events).stdout == b"got first\n"
        stub.WriteStdin(messages.WriteStdinRequest(process_id=process, input=b"second"))
        assert next(events).stdout == b"second"
        stub.WriteStdin(messages.WriteStdinRequest(process_id=process, eof={}))
        assert [event.exit.exit_code for event in events] == [4]
        assert raised(grpc.RpcError, lambda: stub.WriteStdin(messages.WriteStdinRequest(process_id=process))).code() == grpc.StatusCode.NOT_FOUND

        process, events = start("/bin/sh", "-c", "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.1; done")
        assert next(events).stdout == b"ready\n"
        stub.SendSignal(messages.SendSignalRequest(process_id=process, signal=messages.SIGNAL_SIGINT))
        rest = list(events)
        assert b"caught" in b"".join(event.stdout for event in rest) and rest[-1].exit.exit_code == 5, rest

        process, events = start("/bin/sh", "-c", "echo ready; sleep 600")
        assert next(events).stdout == b"ready\n"
        stub.SendSignal(messages.SendSignalRequest(process_id=process, signal=messages.SIGNAL_SIGKILL))
        assert [event.exit.exit_code for event in events if event.HasField("exit")] == [137]

        process, events = start("/bin/sh", "-c", "tty; stty size; read x; stty size", pty=messages.PTY(cols=100, rows=30))
        shown = b""
        while b"30 100" not in shown:
            shown += next(events).stdout
        assert b"/dev/pts/" in shown
        stub.ResizeTTY(messages.ResizeTTYRequest(process_id=process, cols=120, rows=40))
        stub.WriteStdin(messages.WriteStdinRequest(process_id=process, input=b"\n"))
        assert b"40 120" in b"".join(event.stdout for event in events)


def at_once(service):
    """The SDK for asyncio."""
    from k8s_agent_sandbox import AsyncSandboxClient

    async def play():
        config = SandboxDirectConnectionConfig(api_url=service.url, extra_headers=service.headers)
        async with AsyncSandboxClient(connection_config=config) as client:
            sandbox = await client.create_sandbox(warmpool="pool")
            ran = await asyncio.gather(*(sandbox.commands.run(f"echo {number}") for number in range(8)))
            assert [one.stdout for one in ran] == [f"{number}\n" for number in range(8)]
            await sandbox.files.write("async", BYTES)
            assert await sandbox.files.read("async") == BYTES

    asyncio.run(play())


def go(program, service):
    """The SDK for Go, with a person who says yes after a while."""
    with service.person() as person, person.approvals(lambda prompt: (time.sleep(3), once())[1], everybody=True):
        environment = os.environ | {"SERVICE": service.url, "TOKEN": TOKEN if service.headers else ""}
        ended = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (service.work / "counted").read_text() == "1\n", "a request that was sent again has run again"


def main():
    folder, cluster = FOLDER, Cluster()
    (folder / "kubeconfig").write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "played",
        "clusters": [{"name": "played", "cluster": {"server": cluster.url}}],
        "users": [{"name": "played", "user": {}}],
        "contexts": [{"name": "played", "context": {"cluster": "played", "user": "played"}}],
    }))
    known, unknown = Service(folder / "known", True), Service(folder / "unknown", False)
    failed = False
    parts = [
        (NAME, VERSION, "commands and files of the runtime's API, with a token and a person", lambda: direct(known)),
        (NAME, VERSION, "commands and files of sandboxd's API", lambda: sandboxd(unknown)),
        (NAME, VERSION, "process.v1: input, signals and a terminal", lambda: interactive(unknown)),
        (NAME, VERSION, "the client for asyncio", lambda: at_once(known)),
    ]
    if len(sys.argv) > 2:
        note = "commands, files and what is sent again, with a token and a person"
        parts.append(("sigs.k8s.io/agent-sandbox (Go)", sys.argv[2], note, lambda: go(sys.argv[1], known)))
    for program, version, note, part in parts:
        try:
            part()
            print(program, version, "passed", note, sep="\t", flush=True)
        except Exception:
            failed = True
            traceback.print_exc()
            print(program, version, "FAILED", note, sep="\t", flush=True)
    for service in (known, unknown):
        if failed:
            sys.stderr.write(pathlib.Path(service.log.name).read_text())
        service.stop()
    if not failed:
        shutil.rmtree(FOLDER)
    return failed


if __name__ == "__main__":
    sys.exit(main())
