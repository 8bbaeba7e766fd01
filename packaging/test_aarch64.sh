#!/bin/sh
# Test the engine for ARM under qemu: its tests in C++, the same results as here, and the wheel in Debian's Python for ARM.
#
#   apt install g++-aarch64-linux-gnu qemu-user-static
#   packaging/test_aarch64.sh FOLDER ENGINE_TEST PYTHON     FOLDER holds the wheels, ENGINE_TEST was built for this machine
set -eu
wheels=$1 here=$2 python=$3
work=build/aarch64
emulate=qemu-aarch64-static
for program in aarch64-linux-gnu-g++ $emulate; do
  command -v $program > /dev/null || {
    echo "$program is missing: apt install g++-aarch64-linux-gnu qemu-user-static" >&2
    exit 1
  }
done

mkdir -p $work
cmake -S csrc -B $work/engine -DENGINE_TESTS=ON -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
  -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ > $work/engine.log
cmake --build $work/engine -j 2 >> $work/engine.log
$emulate -L /usr/aarch64-linux-gnu $work/engine/engine_test
ours=$($here --checksum) theirs=$($emulate -L /usr/aarch64-linux-gnu $work/engine/engine_test --checksum)
echo "checksum of tokens and log-probabilities: $ours here, $theirs on aarch64"
[ "$ours" = "$theirs" ]

# Debian's Python 3.11 for ARM, in a folder of its own: nothing of this system changes.
root=$work/root
if [ ! -e $root/usr/bin/python3.11 ]; then
  apt=$PWD/$work/apt
  mkdir -p $apt/lists/partial $apt/cache/archives/partial
  : > $apt/status
  options="-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::lists=$apt/lists -o Dir::Cache=$apt/cache"
  options="$options -o Dir::State::status=$apt/status -o APT::Sandbox::User=root -qq"
  apt-get $options update
  apt-get $options -y --no-install-recommends --download-only install python3.11 libstdc++6 > $work/apt.log
  for package in $apt/cache/archives/*.deb; do dpkg-deb -x "$package" $root; done
fi
site=$work/site
rm -rf $site
$python -m pip install --quiet --target $site --python-version 311 --implementation cp --only-binary=:all: \
  --platform manylinux_2_34_aarch64 --platform manylinux_2_28_aarch64 --platform manylinux_2_17_aarch64 \
  "$wheels"/recoversat-*-cp311-*_aarch64.whl
sentence="The children are playing in the garden because the weather is nice today."
for kit in neon plain; do
  echo "$sentence" | PYTHONPATH=$site RECOVERSAT_KIT=$kit $emulate -L $root $root/usr/bin/python3.11 -m recoversat \
    translate --from en --to de --segments 4 --show segments > $work/$kit.txt
done
cmp $work/neon.txt $work/plain.txt
cat $work/neon.txt
