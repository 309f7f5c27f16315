# What the pages need before their first command. The shell of each page reads this file.
export IBSIM_SOCKNAME=pages SIM_HOST=H-node001 OSM_CACHE_DIR=/tmp
export PDSH_RCMD_TYPE=ssh

# Starts the fabric and assigns its LIDs.
fabric() {
    # ibsim spins at the end of its input.
    mkfifo /run/console && sleep infinity > /run/console &
    until [ -p /run/console ]; do sleep 0.1; done
    ibsim -s /srv/fabric.net < /run/console > /run/ibsim 2>&1 &
    until grep -q MaxMcastCap /run/ibsim; do sleep 0.1; done
    LD_PRELOAD=$(echo /usr/lib/*/umad2sim/libumad2sim.so) opensm -o -e -f /tmp/opensm.log > /dev/null
}

# Copies parts of the recording into the folder of the page.
copy() {
    for name in "$@"; do cp -r "/srv/recorded/$name" .; done
}

# Records the fabric: its net file, a plan of eight samplers, and 20 slots with a congested storage host.
recording() (
    set -e
    mkdir -p /srv/recorded/lines && cd /srv/recorded
    fabric
    ibnetdiscover -p > fabric.p
    ibnet-gen --net fabric.p --samplers 'node[001-008]' -o plan.toml --report plan.json
    cat > record.toml <<'TOML'
simulate = "fabric.p"
assignments = "plan.toml"
sampler = "all"
groups = ["extended", "base", "xmtdisc", "rcverr", "xmtsl"]
[simulated]
scenario = "incast"
scenario_start = "4s"
scenario_length = "10s"
TOML
    ibnet-sweep -c record.toml --sweeps 20 -o lines/
    cat lines/*.jsonl > lines.jsonl
    cp lines.jsonl before.jsonl
    cp lines.jsonl after.jsonl
    dump_fts > routes.txt
)
