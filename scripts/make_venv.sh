#!/usr/bin/env bash
# Makes .venv from requirements.lock, with nothing but python3 (3.11 or newer).
#
# `.venv/.ready` is written last and holds the digest of what the environment was made from. Without it the folder is
# a half-made one and is made again; with another digest it is brought up to date in place.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'venv: %s\n' "$*" >&2; }
die() { printf 'venv: %s\n' "$*" >&2; exit 1; }

# Two makes at once must not build one folder.
if [ -z "${VENV_LOCKED:-}" ] && command -v flock >/dev/null; then
    exec env VENV_LOCKED=1 flock .venv.lock "$0" "$@"
fi

find_python() {
    local name
    for name in "${PYTHON:-python3}" python3 python3.14 python3.13 python3.12 python3.11; do
        if command -v "$name" >/dev/null && "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            # Not that of an activated environment: it may be the one about to be made again.
            "$name" -c 'import sys; print(getattr(sys, "_base_executable", sys.executable))'
            return
        fi
    done
    die "Python 3.11 or newer is needed. Install it, or name one: make PYTHON=/path/to/python3 …"
}

digest() {
    cat requirements.lock pyproject.toml scripts/make_venv.sh | "$1" -c '
import hashlib, sys
print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())'
}

make_empty() {
    local python=$1 package
    "$python" -m venv .venv >/dev/null 2>&1 && return
    # Debian and Ubuntu keep ensurepip in a package of its own.
    rm -rf .venv
    package="$("$python" -c 'import sys; print(f"python3.{sys.version_info[1]}-venv")')"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "this Python cannot make environments; installing $package"
        { apt-get update -qq && { apt-get install -y -qq "$package" || apt-get install -y -qq python3-venv; }; } >/dev/null || true
        "$python" -m venv .venv >/dev/null 2>&1 && return
        rm -rf .venv
    fi
    die "$python cannot make environments. Install them first (Debian, Ubuntu: sudo apt-get install $package), then run make again."
}

python="$(find_python)"
wanted="$(digest "$python")"
if [ -f .venv/.ready ] && [ "$(cat .venv/.ready)" = "$wanted" ] && .venv/bin/python -c '' 2>/dev/null; then
    exit 0
fi

if [ -f .venv/.ready ] && .venv/bin/python -c '' 2>/dev/null; then
    say "requirements.lock or pyproject.toml has changed: bringing .venv up to date"
    rm -f .venv/.ready
else
    say "making .venv with $("$python" -V) (a minute or two, once)"
    rm -rf .venv
    make_empty "$python"
fi

# uv itself comes from the lock, with its hashes checked by pip; then uv installs the rest.
sed -n '/^uv==/,/^[^ ]/{/^uv==/p;/^    --hash/p;}' requirements.lock | sed -e '$ s/ \\$//' > .venv/uv.txt
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r .venv/uv.txt \
    || { rm -rf .venv; die "uv could not be installed: is there a network?"; }

export VIRTUAL_ENV="$PWD/.venv"
.venv/bin/uv pip sync --quiet --require-hashes --compile-bytecode requirements.lock
.venv/bin/uv pip install --quiet --no-deps --no-build-isolation --offline --editable .
printf '%s\n' "$wanted" > .venv/.ready
say "ready"
