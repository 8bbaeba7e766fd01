#!/bin/sh
# Install Debian's chromium where it is missing: the HTML report and the web page are tested in a real browser.
set -eu
[ -x /usr/bin/chromium ] && exit 0

as_root=""
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "chromium is missing: apt-get install chromium (as root)" >&2; exit 1; }
  as_root="sudo -n"
fi
$as_root apt-get update -qq
# Fonts are only recommended by the package; without any, all text in the browser has no size.
$as_root env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core
[ -x /usr/bin/chromium ]
