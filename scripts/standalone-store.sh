#!/bin/bash
# standalone-store.sh [-n RANKS]: a pool in which kvclient owns the memory: a
# master, a kvclient, and engine processes that own nothing and may come and go.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/ranks.sh"

ranks_open "$@"
ranks_pool -n 1
ranks_start 0 "$dir/pool/n1.sock"
ranks_config standalone-store 0
ranks_wait
