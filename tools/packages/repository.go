package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/blakesmith/ar"
)

// origin begins Release.
const origin = "Origin: concourse-ci-machine\n"

// writeRepository replaces dir by a repository for apt of the debs in packages: a flat one,
// which is served as it is. Release has the time at. Apt refuses an older one than the last
// that it read. A folder with other files stays.
func writeRepository(packages, dir string, at time.Time) error {
	debs, err := filepath.Glob(filepath.Join(packages, "*.deb"))
	if err != nil || len(debs) == 0 {
		return errors.Join(fmt.Errorf("there is no deb in %s; run: make packages", packages), err)
	}
	release, _ := os.ReadFile(filepath.Join(dir, "Release"))
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 && !strings.HasPrefix(string(release), origin) {
		return fmt.Errorf("cannot replace %s: it is not a repository of these packages; name another folder with APT=", dir)
	}
	next := filepath.Clean(dir) + ".new"
	if err := errors.Join(os.RemoveAll(next), os.MkdirAll(next, 0o755)); err != nil {
		return err
	}
	var index bytes.Buffer
	var archs []string
	for _, deb := range debs {
		data, err := os.ReadFile(deb)
		if err != nil {
			return err
		}
		control, err := readControl(data)
		if err != nil {
			return fmt.Errorf("%s: %w", deb, err)
		}
		arch := field(control, "Architecture")
		archs = append(archs, arch)
		name := fmt.Sprintf("%s_%s_%s.deb", field(control, "Package"), field(control, "Version"), arch)
		if err := os.WriteFile(filepath.Join(next, name), data, 0o644); err != nil {
			return err
		}
		fmt.Fprintf(&index, "%s\nFilename: ./%s\nSize: %d\nSHA256: %x\n\n", strings.TrimSpace(control), name, len(data),
			sha256.Sum256(data))
	}
	slices.Sort(archs)
	text := fmt.Sprintf(origin+"Label: concourse-ci-machine\nArchitectures: %s\nDate: %s\nSHA256:\n",
		strings.Join(slices.Compact(archs), " "), at.Format("Mon, 02 Jan 2006 15:04:05 UTC"))
	if _, err := compress(next, "Packages.gz", index.Bytes()); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(next, "Packages"), index.Bytes(), 0o644); err != nil {
		return err
	}
	for _, name := range []string{"Packages", "Packages.gz"} {
		data, err := os.ReadFile(filepath.Join(next, name))
		if err != nil {
			return err
		}
		text += fmt.Sprintf(" %x %d %s\n", sha256.Sum256(data), len(data), name)
	}
	if err := os.WriteFile(filepath.Join(next, "Release"), []byte(text), 0o644); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(dir), os.Rename(next, dir))
}

// readControl returns the file control of a deb that this program wrote.
func readControl(deb []byte) (string, error) {
	members := ar.NewReader(bytes.NewReader(deb))
	for {
		header, err := members.Next()
		if err != nil {
			return "", fmt.Errorf("cannot find control.tar.gz: %w", err)
		}
		if strings.TrimSuffix(header.Name, "/") == "control.tar.gz" {
			break
		}
	}
	z, err := gzip.NewReader(members)
	if err != nil {
		return "", err
	}
	for files := tar.NewReader(z); ; {
		header, err := files.Next()
		if err != nil {
			return "", fmt.Errorf("cannot find control: %w", err)
		}
		if filepath.Clean(header.Name) == "control" {
			text, err := io.ReadAll(files)
			return string(text), err
		}
	}
}

// field returns a field of a control file, "" if it is missing.
func field(control, name string) string {
	for line := range strings.Lines(control) {
		if value, ok := strings.CutPrefix(line, name+": "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
