#!/usr/bin/env bash
# Installs kiln into .venv and shows it at work: deploy/demo.py says what it does as it goes.
set -euo pipefail
cd "$(dirname "$0")/.."
deploy/install.sh
export PATH=$PWD/.venv/bin:$PATH
exec .venv/bin/python deploy/demo.py "$@"
