#!/bin/sh
# Makes a root file system of the images: all of it in an empty folder, or what the service adds to one that is there.
# The build of the images runs this, and so does their test. To be run as root, by any shell of POSIX.
#
#   rootfs.sh FOLDER PROGRAM [CERTIFICATES]
#
# Nothing of the folder is for the service to write but what volumes are mounted over: `/tmp`, its home, its state, the
# folder of a socket that is shared, and the workspace. Those belong to the user of the images, and to the group 0: a
# cluster that chooses the user by itself leaves the group.
set -eu

NAME=toolgate
ID=65532

root="${1%/}"
program="$2"
certificates="${3:-}"
from="$(dirname "$0")"

# entry FILE LINE: adds the line of a name that the file does not have yet.
entry() {
    grep -q "^${2%%:*}:" "$root/etc/$1" 2>/dev/null || echo "$2" >>"$root/etc/$1"
}

umask 022
mkdir -p "$root/etc/toolgate" "$root/usr/local/bin" "$root/usr/share/doc/toolgate"
entry passwd "root:x:0:0:root:/root:/sbin/nologin"
entry passwd "$NAME:x:$ID:$ID:Toolgate:/home/$NAME:/sbin/nologin"
entry group "root:x:0:"
entry group "$NAME:x:$ID:"
install -m 0755 "$program" "$root/usr/local/bin/toolgate"
install -m 0644 "$from/toolgate.toml" "$root/etc/toolgate/toolgate.toml"
install -m 0644 "$from/../LICENSE" "$root/usr/share/doc/toolgate/LICENSE"
if [ -n "$certificates" ]; then
    mkdir -p "$root/etc/ssl/certs"
    install -m 0644 "$certificates" "$root/etc/ssl/certs/ca-certificates.crt"
fi
mkdir -p "$root/tmp"
chmod 1777 "$root/tmp"
for folder in "home/$NAME" "var/lib/$NAME" "run/$NAME" workspace; do
    mkdir -p "$root/$folder"
    chown "$ID:0" "$root/$folder"
    chmod 0770 "$root/$folder"
done
# Whom a socket there is for, its own mode says; they have to get to it.
chmod 0771 "$root/run/$NAME"
