"""An agent that kills its keeper and its tower, and goes on with nothing left that tells where it came from.

Its process is forked twice, in a session of its own, with an empty environment. It asks the next tower for a ground
stop, and writes down what that answers.
"""

import os
import signal
import subprocess
import sys
import time

if len(sys.argv) > 1:
    keeper, tower, socket, done = sys.argv[1:]
    os.kill(int(keeper), signal.SIGKILL)
    os.kill(int(tower), signal.SIGKILL)
    argv = [sys.executable, "-m", "tower", "ground-stop", "on", "escaped", "--socket", socket]
    unreachable = 69
    code, said = unreachable, ""
    while code == unreachable:
        time.sleep(0.05)
        result = subprocess.run(argv, capture_output=True, text=True, check=False)
        code, said = result.returncode, result.stderr
    with open(f"{done}.new", "w") as file:
        file.write(f"{code} {said}")
    os.rename(f"{done}.new", done)
elif (keeper := str(os.getppid())) and os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        told = [os.environ[name] for name in ("OF_TOWER", "LAYOVER_SOCKET", "DONE")]
        os.execve(sys.executable, [sys.executable, __file__, keeper, *told], {"PATH": os.environ["PATH"]})
    os._exit(0)
else:
    time.sleep(60)
