# What agents do all day, below the hardening of the service: each line of output is one thing that works, or does not.
attempt() {
	name=$1 program=$2
	shift 2
	if command -v "$program" > /dev/null; then
		if said=$("$@" 2>&1); then echo "works: $name"; else echo "BROKEN: $name: $(echo "$said" | tail -n 3 | tr '\n' ' ')"; fi
	else
		echo "absent: $name"
	fi
}

cd "$TMPDIR" || exit 1
cat > hello.c <<'C'
#include <pthread.h>
#include <stdio.h>
static void *say(void *word) { puts(word); return 0; }
int main(void) { pthread_t t; return pthread_create(&t, 0, say, "hello") || pthread_join(t, 0); }
C

attempt git git sh -ec 'git init -q repo; cd repo; git config user.email a@b; git config user.name n; echo x > f
	git add f; git commit -qm "one"; git worktree add -q ../tree; git -C ../tree log --oneline'
attempt "shared git" git sh -ec 'git init -q --bare --shared=group shared.git'
attempt compiler gcc sh -ec 'gcc -O1 -pthread hello.c -o hello; ./hello'
attempt "thread sanitizer" gcc sh -ec 'gcc -fsanitize=thread hello.c -o racy; setarch -R ./racy'
attempt python python3 python3 -c 'import multiprocessing as m, socket, ssl, tempfile, threading
with m.get_context("fork").Pool(2) as pool: assert pool.map(abs, [-1, 2]) == [1, 2]
server = socket.create_server(("127.0.0.1", 0)); socket.create_connection(server.getsockname()).close()
tempfile.TemporaryFile().close()'
attempt venv python3 sh -ec 'python3 -m venv venv; venv/bin/python -m pip --version'
attempt node node node -e 'const w = new (require("worker_threads").Worker)("require(\"fs\").writeFileSync(\"n\",\"1\")", {eval: true});
let f = (n) => n < 2 ? n : f(n - 1) + f(n - 2); f(27); w.on("exit", (code) => process.exit(code))'
attempt "wasm in node" node node -e 'new WebAssembly.Module(new Uint8Array([0,97,115,109,1,0,0,0]))'
attempt bubblewrap bwrap bwrap --unshare-user --unshare-pid --ro-bind / / --dev /dev --bind "$PWD" "$PWD" --die-with-parent touch in-sandbox
attempt strace strace strace -f -o trace true
attempt "file watches" python3 python3 -c 'import ctypes; assert ctypes.CDLL(None).inotify_init() >= 0'
attempt landlock python3 python3 -c 'import ctypes; assert ctypes.CDLL(None).syscall(444, None, 0, 1) > 0'
attempt "shared /tmp" mktemp sh -ec 'f=$(mktemp /tmp/check.XXXXXX); rm "$f"'
attempt "sticky and set-gid bits" chmod sh -ec 'mkdir bits; chmod 2775 bits; test -g bits'
