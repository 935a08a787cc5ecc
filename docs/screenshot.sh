#!/usr/bin/env bash
# A picture of a report. The one of the documentation, docs/src/images/report.png, is made by
#   santa quickstart && docs/screenshot.sh santa-quickstart/report.html
# Further arguments: another file, light or dark, width and height of the window in pixels.
# The browser is $CHROMIUM, or the first of the usual names that is there.
set -euo pipefail

if (($# < 1)); then
    sed -n '2,5s/^# //p' "$0" >&2
    exit 2
fi
report=$(realpath "$1")
picture=${2:-$(dirname "$0")/src/images/report.png}
theme=${3:-light}
width=${4:-1280}
height=${5:-1600}

for browser in "${CHROMIUM:-}" chromium chromium-browser google-chrome; do
    [[ -n $browser ]] && command -v "$browser" >/dev/null && break
    browser=
done
if [[ -z $browser ]]; then
    echo "no browser: set CHROMIUM to one" >&2
    exit 1
fi

profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
# The report is our own file: as root, where the browser refuses its sandbox, it may do without.
sandbox=()
((EUID == 0)) && sandbox=(--no-sandbox)
"$browser" --headless "${sandbox[@]}" --disable-gpu --disable-quic --no-first-run --hide-scrollbars \
    --disable-background-networking --disable-component-update --disable-sync \
    --user-data-dir="$profile" --window-size="$width,$height" --screenshot="$picture" \
    "file://$report?theme=$theme"
