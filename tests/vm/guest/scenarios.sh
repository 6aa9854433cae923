# What happens in the virtual machine. Each scenario is one attempt, and tells "@scenario NAME", its facts as "@fact NAME VALUE",
# and what the server knows of it between "@shown" and "@end". The verdicts are on the other side.
top=/sys/fs/cgroup
echo "+memory +cpu +pids" >$top/cgroup.subtree_control

# group NAME [FILE VALUE]...: makes a group and sets its files
group() {
  group="$top/$1"
  shift
  mkdir -p "$group"
  while [ $# -gt 0 ]; do
    echo "$2" >"$group/$1"
    shift 2
  done
}

# in_group COMMAND...: runs a command in the group that was made last
in_group() (
  echo 0 >"$group/cgroup.procs"
  exec "$@"
)

# measure NAME [OPTION]... -- COMMAND...: runs the agent
measure() {
  attempt=$1
  shift
  plimsoll run --attempt "$attempt" --key "package=$attempt" --patience 60s "$@" >"/tmp/$attempt.out" 2>"/tmp/$attempt.err"
}

fact() { echo "@fact $*"; }

# soon COMMAND...: waits until a command succeeds, for a minute at most
soon() {
  tries=600
  until "$@" || [ $((tries -= 1)) -eq 0 ]; do sleep 0.1; done
}

# tell NAME STATUS: all that is known of an attempt
tell() {
  echo "@scenario $1"
  fact exit "$2"
  fact line "$(tail -n 1 "/tmp/$1.err")"
  echo "@shown"
  plimsoll show --attempt "$1" -o json
  echo "@end"
}

# scenario NAME ...: measures from the root group, where the agent makes a group for the build
scenario() {
  measure "$@"
  tell "$1" $?
}

# scenario_in_group NAME ...: measures in the group that was made last, which the agent shares
scenario_in_group() {
  (
    echo 0 >"$group/cgroup.procs"
    measure "$@"
  )
  tell "$1" $?
}

group server
in_group plimsoll-server --data-dir /tmp/data 2>/tmp/server.err &
soon wget -q -O /dev/null http://127.0.0.1:7411/readyz

# build WORD...: a build that the agent does not start, in the group that was made last; its process is $build
build() {
  rm -f /tmp/build
  in_group $apart sh -c 'echo $$ >/tmp/build.new; mv /tmp/build.new /tmp/build; exec load "$@"' build "$@" &
  soon [ -e /tmp/build ]
  build=$(cat /tmp/build)
}

# attached NAME OPTION...: follows a build
attached() {
  attempt=$1
  shift
  $apart plimsoll attach --attempt "$attempt" --key "package=$attempt" --patience 60s --report line "$@" 2>"/tmp/$attempt.err"
  tell "$attempt" $?
  fact began "$(head -n 1 "/tmp/$attempt.err")"
}

# deep_group PATH: makes a group that has its controllers from all those above
deep_group() {
  group=$top
  for name in $(echo "$1" | tr / ' '); do
    echo "+memory +cpu" >"$group/cgroup.subtree_control"
    group=$group/$name
    mkdir -p "$group"
  done
}

# section EDGE NAME: a mark that GitLab's log viewer folds by
section='section() { printf "\\033[0Ksection_$1:1700000000:$2\\r\\033[0K%s\\n" "$2"; }'

# the build's own group, from inside
own="\$(sed -n 's,^0::,$top,p' /proc/self/cgroup)"

### need
scenario short_peak -- load sleep 2500 keep 200 sleep 300 free sleep 200
scenario steps -- load keep 30 sleep 300 keep 30 sleep 300 keep 30 sleep 300 free sleep 300
scenario grandchild -- load child child keep 60 sleep 500
scenario files --limit-memory 128MiB --limit-memory-most 512MiB -- load write 300 /disk/files read 1 /disk/files
rm /disk/files
scenario phases --phases gitlab --report text -- sh -c "$section"'
  section start configure; load keep 20 sleep 300; section end configure; load keep 5 sleep 300
  section start build; load keep 60 sleep 300; section end build'
fact page "$(tr '\n' '|' </tmp/phases.err)"
scenario shared_memory -- load write 60 /dev/shm/file sleep 500
rm /dev/shm/file

### kills
scenario killed_child --limit-memory 64MiB -- sh -c 'load keep 40 sleep 300 keep 200; exit 2'
scenario keeps_going --limit-memory 64MiB -- sh -c 'for i in 1 2 3; do load keep $((i * 50)); done; exit 2'
scenario killed_grandchild --limit-memory 64MiB -- sh -c "sh -c 'load child keep 200 || exit 7'; exit \$?"
scenario whole_group --limit-memory 64MiB -- sh -c "echo 1 >$own/memory.oom.group; load keep 200; exit 2"
scenario nested_group -- sh -c "own=$own; mkdir \$own/leaf \$own/inner; echo 0 >\$own/leaf/cgroup.procs
  echo +memory >\$own/cgroup.subtree_control; echo 32M >\$own/inner/memory.max
  (echo 0 >\$own/inner/cgroup.procs; exec load keep 100); exit 3"
fact left "$(find $top -name 'plimsoll-*' | wc -l)"
group parent memory.max 64M cgroup.subtree_control +memory
group parent/child
scenario_in_group limit_above -- sh -c 'load keep 200; exit 2'
scenario whole_machine -- sh -c 'load keep 200 keep 200 keep 200 keep 200; exit 2'
scenario killed_at_once --limit-memory 64MiB -- load keep 200
# the agent shares the group, which is killed as one, and is spared
group together memory.max 64M memory.oom.group 1
in_group plimsoll run --attempt agent_spared --patience 60s -- sh -c 'sleep 1; load keep 200; exit 2' 2>/tmp/agent_spared.err
tell agent_spared $?
# without the right to protect itself it dies as well; the next one finds what it saw
in_group su builder -c "plimsoll run --attempt killed_with_agent --spool-dir /tmp/killed -- sh -c 'sleep 1; load keep 200; exit 2'" 2>/tmp/killed_with_agent.err
status=$?
su builder -c "plimsoll run --attempt after_the_kill --spool-dir /tmp/killed --patience 60s -- true" 2>/tmp/after_the_kill.err
tell killed_with_agent $status

### rescued
# grow MIB: the words of a build that takes so many MiB in steps of 8
grow() { words=; i=0; while [ $((i += 8)) -le "$1" ]; do words="$words keep 8 sleep 250"; done; echo "$words"; }
scenario rescued --limit-memory 64MiB --limit-memory-most 128MiB -- load $(grow 96)
fact raises "$(grep -c "raised the build's memory limit" /tmp/rescued.err)"
scenario above_ceiling --limit-memory 64MiB --limit-memory-most 96MiB -- sh -c "load $(grow 160) || exit 2"
unshare -m sh -c "plimsoll run --attempt unraisable --limit-memory 64MiB --limit-memory-most 128MiB --patience 60s -- \
  sh -c 'mount -o remount,bind,ro $top; load $(grow 96) || exit 2'" 2>/tmp/unraisable.err
tell unraisable $?
fact problems "$(grep -c "the build's memory limit is raised no more: .*Read-only file system" /tmp/unraisable.err)"
rmdir $top/plimsoll-*

### other ends
scenario killed_by_hand --limit-memory 64MiB -- sh -c 'load keep 30 sleep 60000 & sleep 1; kill -9 $!; wait $!'
scenario timed_out --limit-memory 64MiB -- timeout -s KILL 1 load keep 30 sleep 60000
scenario compile_error --limit-memory 64MiB -- sh -c 'load keep 30 sleep 100; exit 1'

### starved and throttled
load write 60 /disk/hot
sync
echo 1 >/proc/sys/vm/drop_caches
group tight memory.max 64M
scenario_in_group starved -- load keep 36 read 20 /disk/hot
fact pressure "$(sed -n 's/^full .*total=//p' "$group/memory.pressure")"
fact refaults "$(sed -n 's/^workingset_refault_file //p' "$group/memory.stat")"
rm /disk/hot
group raised memory.max 64M
(sleep 2; echo 128M >"$group/memory.max") &
scenario_in_group raised -- sh -c 'load keep 30 sleep 5000; load keep 200 sleep 1000'
group slow cpu.max '20000 100000'
scenario_in_group throttled -- load busy 1000
fact throttled_usec "$(sed -n 's/^throttled_usec //p' "$group/cpu.stat")"

### rescue
crowd='for j in 1 2 3 4 5 6 7 8; do load ramp 30 2000 & all="$all $!"; done
  for j in $all; do wait $j || code=9; done; exit ${code:-0}'
scenario crowded --limit-memory 160MiB -- sh -c "$crowd"
scenario crowded_paused --limit-memory 160MiB --rescue pause --rescue-programs load -- sh -c "$crowd"
scenario hangs --rescue end -- sh -c "echo 48M >$own/memory.high; load ramp 90 1000 sleep 600000"

### places
group "a b: (c)" memory.max 128M
scenario_in_group name_with_spaces -- load keep 40 sleep 300
group delegated memory.max 128M
chown builder "$group" "$group/cgroup.procs" "$group/cgroup.subtree_control"
in_group su builder -c "plimsoll run --attempt delegated --spool-dir /tmp/builder --patience 60s -- load keep 40 sleep 300" 2>/tmp/delegated.err
tell delegated $?
fact left "$(find "$group" -name 'plimsoll-*' | wc -l)"
group foreign memory.max 128M
in_group su builder -c "plimsoll run --attempt foreign --spool-dir /tmp/builder --patience 60s -- load keep 40 sleep 300" 2>/tmp/foreign.err
tell foreign $?
group read_only memory.max 128M
in_group unshare -m sh -c "mount -o remount,bind,ro $top
  plimsoll run --attempt read_only --patience 60s -- load keep 40 sleep 300" 2>/tmp/read_only.err
tell read_only $?
unshare -m sh -c "umount $top; plimsoll run --attempt no_cgroups --patience 60s -- load keep 40 sleep 300" 2>/tmp/no_cgroups.err
tell no_cgroups $?
scenario group_removed -- sh -c "own=$own; load keep 40 sleep 300; echo \$\$ >$top/cgroup.procs; rmdir \$own || exit 9
  load sleep 500; exit 4"

### lives
scenario forks -- sh -c 'i=0; while [ $i -lt 1000 ]; do (:); i=$((i + 1)); done'
scenario daemon -- sh -c 'setsid load keep 30 sleep 20000 </dev/null >/dev/null 2>&1 & sleep 0.3; exit 6'
fact alive "$(pidof load | wc -w)"
killall load
measure stubborn -- sh -c 'trap "" TERM; echo ready >/tmp/ready; load keep 30 sleep 2000; exit 5' &
agent=$!
soon [ -e /tmp/ready ]
kill -TERM $(pidof plimsoll)
wait $agent
tell stubborn $?

### builds that the agent did not start
group box memory.max 128M
build sleep 500 keep 60 sleep 1500
attached attach_pid --pid "$build"
build sleep 500 keep 60 sleep 1500
attached attach_cgroup --cgroup "$group"
group killer memory.max 64M
build sleep 1000 child keep 200
attached attach_killed --pid "$build"
uid=5f0e1d1c-1111-2222-3333-444455556666
container=b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0
deep_group "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod$(echo $uid | tr - _).slice/cri-containerd-$container.scope"
echo 128M >"$group/memory.max"
build sleep 500 keep 60 sleep 1500
attached attach_pod_systemd --host-cgroup $top --pod-uid $uid
rmdir "$group"
uid=6f0e1d1c-1111-2222-3333-444455556666
deep_group "kubepods/burstable/pod$uid/$container"
echo 128M >"$group/memory.max"
build sleep 500 keep 60 sleep 1500
attached attach_pod_cgroupfs --host-cgroup $top --pod-uid $uid --container b0b0b0b0b0b0
# two containers of a pod that share the processes alone
apart='load apart'
group build_container memory.max 128M
build sleep 500 keep 60 sleep 1500
group agent_container
(
  echo 0 >"$group/cgroup.procs"
  attached attach_sidecar --pid "$build"
)
