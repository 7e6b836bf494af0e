#!/bin/sh
# dpkg: install [OLD VERSION], or upgrade OLD VERSION. After a removal without a purge, only this
# script learns that the package is new: its removal has disabled the units. rpm needs no marker.
set -e
[ -n "${DPKG_MAINTSCRIPT_PACKAGE:-}" ] || exit 0
case "$1" in
install) : >"/run/$DPKG_MAINTSCRIPT_PACKAGE.new" ;;
*) rm -f "/run/$DPKG_MAINTSCRIPT_PACKAGE.new" ;;
esac
