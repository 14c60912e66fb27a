# Sourced by ./demo and ./check, from the top of the clone: one environment in .venv, made when it is not there.
#   environment demo     what `amends demo` needs
#   environment check    that, and what judges a change
# PYTHON names the interpreter; otherwise the first of python3, python3.13, 3.12, 3.11 that is 3.11 or newer.

bin=.venv/bin

fits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; }

find_python() {
  local candidate
  if [ -n "${PYTHON:-}" ]; then
    fits "$PYTHON" && echo "$PYTHON" && return
    echo "$PYTHON (from PYTHON) does not run or is older than Python 3.11; name a newer one" >&2
    return 2
  fi
  for candidate in python3 python3.13 python3.12 python3.11; do
    fits "$candidate" && echo "$candidate" && return
  done
  echo "no Python 3.11 or newer was found; install one and name it: PYTHON=/path/to/python3.11 $0" >&2
  return 2
}

environment() { # environment demo|check
  local kind=$1 python stamp=.venv/.amends-stamp want
  python=$(find_python) || exit 2
  want=$("$python" -c 'import hashlib; print(hashlib.sha256(open("pyproject.toml", "rb").read()).hexdigest())')
  # What ./check made is enough for ./demo too.
  if grep -qxE "$want ($kind|check)" "$stamp" 2> /dev/null && $bin/python -c 'import amends' 2> /dev/null; then
    return 0
  fi
  echo "the environment is being made in .venv (once; it takes a minute)" >&2
  $bin/python -m pip --version > /dev/null 2>&1 || "$python" -m venv --clear .venv
  local pip=($bin/python -m pip install --quiet --disable-pip-version-check --no-input)
  if [ "$kind" = demo ]; then
    "${pip[@]}" -e '.[demo]'
  else
    "${pip[@]}" --upgrade 'pip>=25.1'
    "${pip[@]}" -e '.[all]' --group check
  fi
  echo "$want $kind" > "$stamp"
}
