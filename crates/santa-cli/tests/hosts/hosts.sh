#!/usr/bin/env bash
# Two machines in network namespaces, each with an address of its own: trains across them, cuts one off
# during the run, and goes on once it is back.
#
#     hosts.sh SANTA FOLDER
#
# Needs root, iproute2 and Open MPI. Everything it makes is gone when it ends.
set -euo pipefail
santa=$1 folder=$2
id=santa$$
network=10.87.$((RANDOM % 200)).0/24
prefix=${network%.0/24}
patience=5
watchful=()

clean_up() {
    for host in 1 2; do
        ip netns pids "$id-$host" 2>/dev/null | xargs -r kill -KILL 2>/dev/null || true
        ip netns del "$id-$host" 2>/dev/null || true
    done
    ip link del "br$$" 2>/dev/null || true
}
trap clean_up EXIT

ip link add "br$$" type bridge
ip link set "br$$" up
for host in 1 2; do
    ip netns add "$id-$host"
    ip link add "v$$-$host" type veth peer name eth0 netns "$id-$host"
    ip link set "v$$-$host" master "br$$" up
    ip -n "$id-$host" addr add "$prefix.$host/24" dev eth0
    ip -n "$id-$host" link set eth0 up
    ip -n "$id-$host" link set lo up
done

# In the place of ssh: `agent HOST COMMAND...` runs the command on that host.
agent=$folder/agent
cat >"$agent" <<AGENT
#!/usr/bin/env bash
host=\${1##*.}
shift
exec ip netns exec $id-\$host unshare --uts bash -c "hostname $id-\$host; \$*"
AGENT
chmod +x "$agent"

train() {
    ip netns exec "$id-1" unshare --uts bash -c 'hostname "$0"; exec "$@"' "$id-1" \
        mpirun -n 2 --allow-run-as-root --host "$prefix.1,$prefix.2" \
        --mca plm_rsh_agent "$agent" --mca btl tcp,self --mca pml ob1 \
        --mca btl_tcp_if_include "$network" --mca oob_tcp_if_include "$network" \
        --mca hwloc_base_binding_policy none "${watchful[@]}" \
        "$santa" train quickstart --set batch=250 --set 'model.hidden=[40]' --set checkpoints.every=10 \
        --set epochs="$1" --threads 1 --ordered 4 --patience $patience --out "$2" "${@:3}"
}
newest() {
    find "$1/checkpoints" -name 'step-*.safetensors' | sort | tail -n 1
}

echo "two hosts, uncut"
train 2 "$folder/uncut" >/dev/null

# Starts a long run, cuts the second host off after the first checkpoint, and waits until nobody works on
# it any more.
cut_off() {
    train 100 "$folder/cut" "${@:2}" >"$folder/cut.out" 2>"$folder/cut.err" &
    local job=$! before
    before=$(newest "$folder/cut" 2>/dev/null || true)
    for _ in $(seq 600); do
        [[ $(newest "$folder/cut" 2>/dev/null) != "$before" ]] && break
        sleep 0.05
    done
    if [[ $(newest "$folder/cut" 2>/dev/null) == "$before" ]] || ! launcher_is_there $job; then
        cat "$folder/cut.err"
        echo "it did not run when it was to be cut off" >&2
        exit 1
    fi
    ip link set "v$$-2" down
    local began=$SECONDS
    while $1 "$job"; do
        ((SECONDS - began < patience + 30)) || { cat "$folder/cut.err"; exit 1; }
        sleep 0.2
    done
    echo "ended $((SECONDS - began)) s after the cut"
    # What is left of the launcher.
    for host in 1 2; do
        ip netns pids "$id-$host" | xargs -r kill -KILL 2>/dev/null || true
    done
    wait $job || true
    ip link set "v$$-2" up
    sleep 3 # until the two find each other again
}
launcher_is_there() { kill -0 "$1" 2>/dev/null; }
ranks_are_there() {
    local host
    for host in 1 2; do
        ip netns pids "$id-$host" | xargs -r ps -o comm= -p 2>/dev/null | grep -qx santa && return
    done
    return 1
}

echo "one of them is cut off; the launcher looks after its connections"
watchful=(--mca oob_tcp_keepalive_time 1 --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 2)
cut_off launcher_is_there
echo "the same, and it does not: the ranks notice by themselves"
watchful=()
cut_off ranks_are_there --resume
grep -h "has waited" "$folder/cut.err" || { cat "$folder/cut.err"; exit 1; }

echo "it is back, and the run goes on from $(basename "$(newest "$folder/cut")")"
train 100 "$folder/cut" --resume >/dev/null

echo "the same run in one process"
"$santa" train quickstart --set batch=250 --set 'model.hidden=[40]' --set checkpoints.every=10 \
    --set epochs=100 --threads 1 --ordered 4 --out "$folder/alone" >/dev/null 2>&1
python3 - "$(newest "$folder/cut")" "$(newest "$folder/alone")" <<'PYTHON'
import json, struct, sys

def tensors(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    return {name: data[8 + size :][slice(*about["data_offsets"])] for name, about in header.items()}

cut, alone = (tensors(path) for path in sys.argv[1:])
assert cut.keys() == alone.keys() and len(cut) > 3, (cut.keys(), alone.keys())
different = [name for name in cut if cut[name] != alone[name]]
sys.exit(f"different: {different}" if different else 0)
PYTHON
echo "the same bits"
