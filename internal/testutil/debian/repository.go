package debian

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
)

// makeRepository downloads $PACKAGES with the packages that they need in addition to the
// system's, and lists them as a repository for apt.
const makeRepository = `apt-get update >/dev/null
cd /opt/debs && apt-get install --yes --download-only -o Dir::Cache::archives=/opt/debs $PACKAGES >/dev/null
for f in *.deb; do
	dpkg-deb --field "$f"
	printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$f" "$(stat -c %s "$f")" "$(sha256sum "$f" | cut -d' ' -f1)"
done >Packages
rm -rf partial lock`

// repositoryPackages are installed on machines without a network: PostgreSQL by
// concourse-ci-machine, and ssh for add-worker.
const repositoryPackages = "postgresql openssh-server openssh-client"

// Repository returns a tar with a folder debs, a repository for apt of repositoryPackages.
// It fits systems of Base.
func Repository(ctx context.Context) (string, error) {
	tar, err := Base(ctx)
	if err != nil {
		return "", err
	}
	name, err := repositoryFile()
	if err != nil {
		return "", err
	}
	return Cached(name, func(out *os.File) error {
		dir, err := os.MkdirTemp("", "debs-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		debs := filepath.Join(dir, "debs")
		if err := os.Mkdir(debs, 0o755); err != nil {
			return err
		}
		if err := Inside(ctx, tar, makeRepository, []string{"PACKAGES=" + repositoryPackages},
			debs+":/opt/debs"); err != nil {
			return fmt.Errorf("cannot download %s: %w", repositoryPackages, err)
		}
		return Pack(ctx, out, dir, "debs")
	})
}

// repositoryFile returns the name of the repository in the cache.
func repositoryFile() (string, error) {
	s, err := base()
	if err != nil {
		return "", err
	}
	file, err := s.File()
	if err != nil {
		return "", err
	}
	h := sha256.Sum256([]byte(makeRepository + repositoryPackages))
	return fmt.Sprintf("debs-%x-%s", h[:4], file), nil
}

// Ready reports whether Base and Repository are in the cache.
func Ready() bool {
	s, err := base()
	if err != nil {
		return false
	}
	file, err := s.File()
	if err != nil {
		return false
	}
	debs, err := repositoryFile()
	return err == nil && Has(file) && Has(debs)
}
