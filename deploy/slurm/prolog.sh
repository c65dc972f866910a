#!/bin/sh
# TaskProlog: what it prints as `export` becomes part of every task's environment.
# The agent runs as root from systemd; without it the job runs as always.
if [ -S /run/pilotlight/probe.sock ]; then
  echo "export PILOTLIGHT=1"
  echo "export PILOTLIGHT_JOB=${SLURM_JOB_NAME:-job}-${SLURM_JOB_ID:-0}"
fi
