#!/bin/sh
# Recovery in one command: lists what waits, or sends it to the topics it was meant for. See docs/recovery.md.
set -eu

usage() {
  cat <<'TEXT'
Usage: dlq-recovery.sh [--list] [--topic <topic>] [--broker <host:port,...>] [--dir <folder>] [--file <file>] [--s3]
                       [option...]

  --list     only list; without it, events are sent
  --topic    without --dir, --file and --s3: the dead letter topic (default: svc.broker.dlq-topic)
             with them: topic of events whose own topic is unknown
  --meant-for  only events for this topic, also if the configuration does not have it (--topic of svc)
  --broker   addresses of the brokers (default: svc.broker.bootstrap-servers)
  --dir      folder of backup files, instead of the dead letter topic
  --file     one backup file
  --s3       the bucket of the backup, instead of the dead letter topic

Further options go to svc as they are: --dry-run, --json, --type, --since, --until, --rate, --group, --config.
TEXT
}

list=no topic='' dir='' file='' s3=''
count=$#
while [ "$count" -gt 0 ]; do
  case $1 in # --topic=orders is --topic orders.
    --topic=* | --dir=* | --file=* | --meant-for=*)
      name=${1%%=*} value=${1#*=}
      shift
      set -- "$name" "$value" "$@"
      count=$((count + 1))
      ;;
  esac
  case $1 in
    --help | -h) usage; exit 0 ;;
    --list) list=yes ;;
    --s3) s3=--s3 ;;
    --topic | --meant-for | --dir | --file)
      if [ "$count" -lt 2 ] || [ -z "$2" ]; then
        echo "dlq-recovery.sh: $1 needs a value" >&2
        exit 2
      fi
      case $1 in
        --topic) topic=$2 ;;
        --meant-for) set -- "$@" --topic "$2" ;;
        --dir) dir=$2 ;;
        --file) file=$2 ;;
      esac
      shift
      count=$((count - 1))
      ;;
    *) set -- "$@" "$1" ;; # Kept for svc, in its order: those that stay go round to the end.
  esac
  shift
  count=$((count - 1))
done

if [ -n "$dir$file$s3" ]; then
  command=backup action=restore
  [ -z "$s3" ] || set -- "$@" "$s3"
  [ -z "$dir" ] || set -- "$@" --dir "$dir"
  [ -z "$file" ] || set -- "$@" --file "$file"
  [ -z "$topic" ] || set -- "$@" --to "$topic"
else
  command=dlq action=recover
  [ -z "$topic" ] || set -- "$@" --dlq-topic "$topic"
fi
[ "$list" = no ] || action=list

# Beside this script in the package; SVC names another one.
here=$(CDPATH='' cd -- "$(dirname -- "$(readlink -f -- "$0")")" && pwd)
exec "${NODE:-node}" "${SVC:-$here/../bin/svc.cjs}" "$command" "$action" "$@"
