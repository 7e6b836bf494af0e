package suite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/debian"
)

// typeMetadata describes the stand-in for the type registry-image.
const typeMetadata = `{"type":"registry-image","version":"1.0.0","privileged":false,"unique_version_history":false}`

// packWithType packs a release with the resource types of another folder instead of its
// unit.
const packWithType = `whole=$1
if [ ! -d "$1" ]; then
	whole=$2/whole
	mkdir "$whole" && tar -xzf "$1" -C "$whole" --strip-components=1 --exclude='*/resource-types/*'
fi
gzip -1 <"$3" >"$2/resource-types/registry-image/rootfs.tgz"
tar -cf "$4" -I 'gzip -1' --transform 's,^,concourse/,' -C "$whole" $(ls "$whole" | grep -vx resource-types) \
	-C "$2" resource-types`

// WithRegistryImage packs the named release as the tarball to, with the files of the tar rootfs
// as its only resource type, registry-image. The release's own type needs a registry. dir is
// an empty folder for its work.
func WithRegistryImage(ctx context.Context, rootfs, dir, to string) error {
	at := filepath.Join(dir, "resource-types/registry-image")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(at, "resource_metadata.json"), []byte(typeMetadata), 0o644); err != nil {
		return err
	}
	if err := debian.Run(ctx, "sh", "-ec", packWithType, "sh", os.Getenv(ReleaseEnv), dir, rootfs, to); err != nil {
		return fmt.Errorf("cannot use %s=%s: %w", ReleaseEnv, os.Getenv(ReleaseEnv), err)
	}
	return nil
}
