//go:build e2e

package journeys

import (
	"context"
	"os"
	"path/filepath"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/debian"
	"github.com/fourdollars/concourse-ci-machine/tests/suite"
)

// makeFiles makes the files of a resource type registry-image in the folder $1. Every image
// that it gets is busybox with stand-ins for two programs of ROCm. rocminfo opens /dev/kfd.
const makeFiles = `set -u
image=$1/image
mkdir -p "$image/bin" "$image/tmp" "$image/etc" "$1/opt/resource"
cp "$(command -v busybox)" "$image/bin/busybox"
for name in $("$image/bin/busybox" --list); do [ "$name" = busybox ] || ln -s busybox "$image/bin/$name"; done
cat >"$image/bin/rocminfo" <<'EOF'
#!/bin/sh
exec 3<>/dev/kfd
for n in /dev/dri/renderD*; do echo '  Name:                    gfx90a'; done
EOF
cat >"$image/bin/rocm-smi" <<'EOF'
#!/bin/sh
ls /dev/dri
EOF
cat >"$1/opt/resource/check" <<'EOF'
#!/bin/sh
cat >/dev/null
echo '[{"digest":"sha256:0"}]'
EOF
cat >"$1/opt/resource/in" <<'EOF'
#!/bin/sh
cat >/dev/null
mkdir "$1/rootfs"
cp -a /image/. "$1/rootfs/"
echo '{"env":["PATH=/bin"]}' >"$1/metadata.json"
echo '{"version":{"digest":"sha256:0"}}'
EOF
chmod 755 "$image/bin/rocminfo" "$image/bin/rocm-smi" "$1/opt/resource/check" "$1/opt/resource/in"
cp -a "$image/bin" "$1/bin"
mkdir "$1/tmp" "$1/etc"
tar -C "$1" -cf "$2" .
tar -C "$image" -cf "$3" .`

// imageTar returns the path of the image's tar.
func imageTar() string { return filepath.Join(built, "image.tar") }

// makeImages makes imageTar, and the release with the stand-in for registry-image.
func makeImages(ctx context.Context) error {
	rootfs, dir := filepath.Join(built, "type.tar"), filepath.Join(built, "type")
	if err := debian.Run(ctx, "sh", "-ec", makeFiles, "sh", dir, rootfs, imageTar()); err != nil {
		return err
	}
	if os.Getenv(suite.ReleaseEnv) == "" {
		return nil
	}
	return suite.WithRegistryImage(ctx, rootfs, filepath.Join(built, "release"), release())
}
