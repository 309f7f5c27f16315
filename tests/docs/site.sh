# What the pages need before their first command. The shell of each page reads this file.
export IBSIM_SOCKNAME=pages SIM_HOST=H-node001 OSM_CACHE_DIR=/tmp

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
    for name in "$@"; do cp -r "/srv/recorded/$name" . || return; done
}

# Sets the clock of all further programs to the minute of the recording.
noon() {
    export TZ=UTC LD_PRELOAD=/opt/tools/libfaketimeMT.so.1
    export FAKETIME="@$(/bin/date +%F) 12:00:30" DONT_FAKE_MONOTONIC=1
}

# Records the fabric: its net file, a plan of eight samplers, and 20 slots with a congested storage host.
recording() (
    set -e
    mkdir -p /srv/recorded/lines /srv/recorded/ldms/procnfs && cd /srv/recorded
    fabric
    ibnet-gen discover -o fabric.p
    ibnet-gen --net fabric.p --samplers 'node[001-008]' -o plan.toml --report plan.json
    dump_fts > routes.txt
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
    # The pages have times at noon.
    first=$(cat lines/*.jsonl | grep -o '"slot":[0-9]*' | cut -d: -f2 | sort -n | head -n 1)
    python3 /srv/shift.py "$(($(date -u -d 'today 12:00' +%s) - first))" lines/*.jsonl
    cat lines/*.jsonl > lines.jsonl
    cp lines.jsonl before.jsonl
    cp lines.jsonl after.jsonl
    zstd -q lines/*node001*.jsonl
    noon=$(date -u -d 'today 12:00' +%s)
    cat > jobs.txt <<CSV
job,user,nodes,start,end,state,name
4650,ada,"node[001-016]",$noon,$((noon + 8)),COMPLETED,cfd
4711,ada,"node[001-016]",$((noon + 8)),$((noon + 20)),COMPLETED,cfd
4712,user02,"node[017-032]",$noon,$((noon + 20)),COMPLETED,md
CSV
    cp jobs.txt jobs.jsonl
    mkdir -p examples target/release/examples
    cp /srv/stria.p examples/
    cp /srv/host_exporters target/release/examples/
    printf '#Time,ProducerName,numcalls\n' > ldms/procnfs/procnfs.1
    for second in $(seq 0 19); do
        for host in $(seq 1 24); do
            printf '%s.000000,node%03d,%s\n' $((noon + second)) "$host" $((second * host * 10))
        done
    done >> ldms/procnfs/procnfs.1
)

# A resource manager: sacct lists the jobs of the recording.
scheduler() {
    printf '#!/bin/sh\nexec cat /srv/recorded/jobs.txt\n' > /usr/local/bin/sacct
    chmod +x /usr/local/bin/sacct
}

# Records of the physical layer, of one sampler.
physical_lines() (
    set -e
    mkdir lines
    cat > /tmp/physical.toml <<'TOML'
simulate = "/srv/recorded/fabric.p"
[physical]
enabled = true
every = "1s"
modules_every = "1s"
sensors_every = "1s"
budget = 1.0
TOML
    ibnet-sweep -c /tmp/physical.toml --sweeps 6 -o lines/all.jsonl
)

# A NATS server with the stream of the pages, and a sampler for each host of the plan.
stream() {
    nats-server -a 127.0.0.1 -p 4222 -js -sd /tmp/nats > /tmp/nats.log 2>&1 &
    cat > /tmp/nats.toml <<TOML
simulate = "/srv/recorded/fabric.p"
assignments = "/srv/recorded/plan.toml"
sampler = "all"
[[output]]
type = "nats"
server = "nats://127.0.0.1:4222"
batch = "slot"
TOML
    until python3 /srv/stream.py; do sleep 0.3; done
    ibnet-sweep -c /tmp/nats.toml > /tmp/nats-sweep.log 2>&1 &
    sleep 3
}

# Samplers with sockets, at the addresses of the pages.
socket_samplers() {
    mkdir -p /run/ibnet
    cat > /tmp/sockets.toml <<TOML
simulate = "/srv/recorded/fabric.p"
assignments = "/srv/recorded/plan.toml"
sampler = "all"
[[output]]
type = "tcp"
listen = "9331"
[[output]]
type = "unix"
path = "/run/ibnet/lines.sock"
TOML
    ibnet-sweep -c /tmp/sockets.toml > /tmp/sockets.log 2>&1 &
    until [ -S /run/ibnet/lines.sock ]; do sleep 0.2; done
}

# Lid files of LDMS, in the places of the page.
lid_files() {
    mkdir -p /etc/ldms
    ibnet-gen --net fabric.p --samplers 'admin1,admin2:mlx5_1' --format ldms -o /etc/ldms/lids
    cp /etc/ldms/lids.admin1.conf /tmp/a.lids
    cp /etc/ldms/lids.admin2.conf /tmp/b.lids
}

# The host group of the page. The programs reach all hosts by a stand-in of ssh on this host.
cluster() {
    export PDSH_RCMD_TYPE=ssh
    mkdir -p /etc/clustershell/groups.d
    echo 'samplers: node[001-009]' > /etc/clustershell/groups.d/local.cfg
}
