#!/bin/bash
# embedded.sh [-n RANKS]: a pool in which each process of an engine owns a
# part of the memory: a master, and engine processes with embedded nodes. What
# a process owns is gone when it ends.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/ranks.sh"

ranks_open "$@"
ranks_pool -n 0
ranks_start $((128 << 20))
ranks_config embedded '"128MB"'
ranks_wait
