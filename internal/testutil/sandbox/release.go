package sandbox

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
)

// Schema is the file of a sandbox that holds the version of its database's
// schema, a number; without it no web has used the database yet.
const Schema = "/database-schema"

// standIn is a program of a Concourse release. What it knows beside its version
// is `concourse migrate`: a release x.y.z has the schema xyz. As with Concourse, a release
// that lacks a migration takes it for done after a newer one has undone it.
const standIn = `#!/bin/sh
# A stand-in of a Concourse release: it knows its version, and one of a database.
root=${0%%/var/lib/concourse/*} root=${root%%/opt/concourse-ci-machine/*} schema=$root` + Schema + ` own=$(echo %[1]s | tr -d .)
case "$1 $2" in
"migrate --supported-db-version") echo "$own" ;;
"migrate --current-db-version")
	if [ -e "$schema-undone" ] && [ "$own" -lt "$(cat "$schema-undone")" ]; then cat "$schema-undone"; exit; fi
	cat "$schema" || { echo 'relation "migrations_history" does not exist' >&2; exit 1; } ;;
"migrate --migrate-db-to-version="*)
	rm -f "$schema-undone"
	if [ -e "$schema" ] && [ "${2#*=}" -lt "$(cat "$schema")" ]; then echo "$own" >"$schema-undone"; fi
	echo "${2#*=}" >"$schema" ;;
*) echo %[1]s ;;
esac
`

// StandInRelease writes a tarball with the layout of a Concourse release whose
// programs print their version and little else. It lets the charm's own code
// unpack and switch a release where no real one is at hand.
func StandInRelease(path, version string) error {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	add := func(name string, mode int64, data string) error {
		h := &tar.Header{Name: "concourse/" + name, Mode: mode, Size: int64(len(data)), Typeflag: tar.TypeReg}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		_, err := t.Write([]byte(data))
		return err
	}
	for _, name := range []string{"concourse", "containerd", "containerd-shim-runc-v2", "runc", "init"} {
		if err := add("bin/"+name, 0o755, fmt.Sprintf(standIn, version)); err != nil {
			return err
		}
	}
	if err := add("resource-types/mock/resource_metadata.json", 0o644, `{"type":"mock","version":"0"}`+"\n"); err != nil {
		return err
	}
	if err := t.Close(); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
