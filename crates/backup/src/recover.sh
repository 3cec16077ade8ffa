#!/bin/sh
# Makes the data directory of a new PostgreSQL out of what lies beside this file. Run it as the user of the server:
#   sh recover.sh /var/lib/postgresql/data
# Start the server with it then. It comes back by itself, and takes clients when it is there.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
data=$1
mkdir -p "$data"
if [ -n "$(ls -A "$data")" ]; then
    echo "$data is not empty: name another directory" >&2
    exit 1
fi
chmod 0700 "$data"
tar -xf "$here/base.tar" -C "$data"
mkdir "$data/causeway_wal"
for log in "$here"/wal-*.tar; do
    if [ -e "$log" ]; then tar -xf "$log" -C "$data/causeway_wal"; fi
done
# A target of an earlier recovery of that server would end this one too early, or be one too many.
own=$data/postgresql.auto.conf
if [ -e "$own" ]; then
    # The shell reads it, because not every image of PostgreSQL has sed.
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in
        recovery_target*) ;;
        *) printf '%s\n' "$line" ;;
        esac
    done < "$own" > "$own.new"
    mv "$own.new" "$own"
fi
