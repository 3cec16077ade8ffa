# A pod that was deleted by force is followed by another one at once, on the same volume, while its process still serves
# and acknowledges writes. Who read the data before the last of them would not have it: so the volume is waited for.
# https://kubernetes.io/docs/tasks/run-application/force-delete-stateful-set-pod/#force-deletion
lock=process.lock
if command -v flock >/dev/null && true >>"$lock"; then
  # The server inherits it, and holds it for as long as it lives.
  exec 9>>"$lock"
  trap 'exit 0' TERM
  tries=0
  until flock -n 9; do
    if [ "$tries" -eq 0 ]; then
      echo "another process uses this volume: waiting for its end"
    elif [ "$tries" -eq 600 ]; then
      # Its pod was to be killed long ago: rather, this file system knows no locks.
      echo "the lock of this volume was not to be had in a minute: starting without it"
      break
    fi
    tries=$((tries + 1))
    sleep 0.1
  done
fi
exec redis-server "$1"
