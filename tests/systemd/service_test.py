#!/usr/bin/env python3
"""service_test.py ANTIPHOND: the daemon as systemd sees it: readiness, watchdog, inherited sockets, drain, statuses."""
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

daemon = sys.argv[1]
ARGUMENTS = ["--model.path=echo", "--sessions.realtime_priority=0", "--model.threads=1", "--sessions.slots=1"]


def start(folder, arguments, listener=None, watchdog_us=0):
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(f"{folder}/notify")
    notify.settimeout(30)
    environment = dict(os.environ, NOTIFY_SOCKET=f"{folder}/notify", STATE_DIRECTORY=folder, JOURNAL_STREAM="8:1")

    def in_child():
        if listener is not None:
            os.dup2(listener.fileno(), 3)
            os.set_inheritable(3, True)
            os.environ["LISTEN_PID"] = str(os.getpid())

    if listener is not None:
        environment.update(LISTEN_FDS="1", LISTEN_FDNAMES="http")
    if watchdog_us:
        environment["WATCHDOG_USEC"] = str(watchdog_us)
    # LISTEN_PID must be the daemon's own: a shell that execs keeps its number.
    command = ["/bin/sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh", daemon, *ARGUMENTS, *arguments]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, close_fds=False,
                               preexec_fn=in_child)
    return process, notify


def await_message(notify, word):
    seen = []
    while word not in "\n".join(seen):
        seen.append(notify.recv(4096).decode())
    return seen


with tempfile.TemporaryDirectory() as folder:
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    process, notify = start(folder, ["--server.listen=127.0.0.1:1"], listener, watchdog_us=400_000)
    await_message(notify, "READY=1")
    for _ in range(3):
        await_message(notify, "WATCHDOG=1")
    assert urllib.request.urlopen(url + "/healthz", timeout=10).read() == b"ok\n"
    process.send_signal(signal.SIGTERM)
    await_message(notify, "STOPPING=1")
    assert process.wait(20) == 0, process.stderr.read()
    lines = process.stderr.read().splitlines()
    assert lines and all(line[0] == "<" and line[1] in "3467" and line[2] == ">" for line in lines), lines
    notify.close()
    os.unlink(f"{folder}/notify")

    # The port is ours still: a caller that comes while nobody serves waits, and is served.
    caller = socket.create_connection(listener.getsockname())
    caller.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    process, notify = start(folder, [], listener)
    caller.settimeout(30)
    answer = caller.recv(4096)
    assert answer.startswith(b"HTTP/1.1 "), answer
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    notify.close()
    os.unlink(f"{folder}/notify")

    def status(*arguments):
        return subprocess.run([daemon, *arguments], capture_output=True, timeout=60).returncode

    assert status("--no.such=1") == 2
    assert status("--check-config", "--no.such=1") == 1
    assert status("--model.path=/no/such/folder") == 3
    assert status(*ARGUMENTS, f"--server.listen=127.0.0.1:{listener.getsockname()[1]}") == 4
print("service passed")
