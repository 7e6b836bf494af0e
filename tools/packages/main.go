// Command packages writes a deb and an rpm of each package that a YAML file of this folder
// describes, and their checksums, or a repository for apt of them. The format is nfpm's
// (https://nfpm.goreleaser.com). The same input gives the same bytes: times are fixed, and
// files are sorted. It builds no program and signs nothing.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// options holds the command line.
type options struct {
	folder      string // with the YAML files; sources are relative to the current folder
	bin         string // with the programs
	tree        string // with generated files: man pages, completion
	arch        string // in Go's words
	version     string
	compression string
	out         string
	repository  string // with the debs of out, for apt
}

func main() {
	var o options
	flag.StringVar(&o.folder, "packages", "tools/packages", "`folder` with the descriptions")
	flag.StringVar(&o.bin, "bin", "", "`folder` with the programs")
	flag.StringVar(&o.tree, "tree", "", "`folder` with man pages and completion")
	flag.StringVar(&o.arch, "arch", "amd64", "`name` of the architecture, as Go has it")
	flag.StringVar(&o.version, "version", "", "`version` of the packages")
	flag.StringVar(&o.compression, "compression", "xz", "xz, gzip or zstd: `name` of a compression of both formats")
	flag.StringVar(&o.out, "o", "", "`folder` to write into")
	flag.StringVar(&o.repository, "repository", "", "`folder` for a repository for apt, of the debs in -o")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "cannot make packages:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	at, err := buildTime(os.Getenv("SOURCE_DATE_EPOCH"))
	switch {
	case flag.NArg() > 0 || o.out == "" || o.repository == "" && (o.bin == "" || o.tree == "" || o.version == ""):
		return errors.New("want -bin, -tree, -version and -o, or -repository and -o; see --help")
	case err != nil:
		return err
	case o.repository != "":
		return writeRepository(o.out, o.repository, at)
	}
	if o.version[0] < '0' || o.version[0] > '9' {
		return fmt.Errorf("the version %q does not begin with a number; run: make packages VERSION=1.2.3", o.version)
	}
	all, err := filepath.Glob(filepath.Join(o.folder, "*.yaml"))
	if err != nil || len(all) == 0 {
		return errors.Join(fmt.Errorf("there is no description in %s", o.folder), err)
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	for _, file := range all {
		for _, format := range []string{"deb", "rpm"} {
			if err := o.pack(file, format, at); err != nil {
				return fmt.Errorf("%s as %s: %w", file, format, err)
			}
		}
	}
	return writeSums(o.out)
}

// buildTime returns the time of all files in a package. It is not the time of a build,
// because two builds of one commit must have the same bytes.
func buildTime(epoch string) (time.Time, error) {
	if epoch == "" {
		return time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC), nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("cannot read SOURCE_DATE_EPOCH=%q: want seconds since 1970", epoch)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

func (o options) pack(file, format string, at time.Time) error {
	values := map[string]string{"ARCH": o.arch, "VERSION": o.version, "BIN": o.bin, "TREE": o.tree, "PACKAGES": o.folder,
		"COMPRESSION": o.compression}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	// nfpm expands variables in some fields only.
	config, err := nfpm.Parse(strings.NewReader(os.Expand(string(text), func(name string) string {
		value, ok := values[name]
		if !ok {
			err = fmt.Errorf("it has the unknown variable %s", name)
		}
		return value
	})))
	if err != nil {
		return err
	}
	info, err := config.Get(format)
	if err != nil {
		return err
	}
	info = nfpm.WithDefaults(info)
	// A hyphen would begin the revision of a Debian package.
	info.VersionMetadata = strings.ReplaceAll(info.VersionMetadata, "-", ".")
	info.MTime, info.RPM.BuildHost = at, "concourse-ci-machine"
	if info.Contents, err = expandTrees(info.Contents); err != nil {
		return err
	}
	documents, err := os.MkdirTemp("", "packages-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(documents)
	if err := errors.Join(compressPages(info, documents), addChangelog(info, documents)); err != nil {
		return err
	}
	if err := fixContents(info.Contents, format, at); err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	// Written whole, so that a failure leaves no half package.
	path := filepath.Join(o.out, fmt.Sprintf("%s_%s.%s", info.Name, o.arch, format))
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = packager.Package(info, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// expandTrees replaces each entry of type tree by its files. Programs and scripts are
// executable, whatever the modes of the checkout.
func expandTrees(all files.Contents) (expanded files.Contents, err error) {
	for _, c := range all {
		if c.Type != files.TypeTree {
			expanded = append(expanded, c)
			continue
		}
		err = filepath.WalkDir(c.Source, func(file string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			one := &files.Content{Source: file, Destination: c.Destination + strings.TrimPrefix(file, c.Source),
				Packager: c.Packager, FileInfo: &files.ContentFileInfo{Mode: 0o644}}
			switch {
			case d.IsDir() && strings.HasPrefix(one.Destination, manPages):
				return nil
			case d.IsDir(): // dpkg removes empty folders by itself
				one.Source, one.Type, one.Packager, one.FileInfo.Mode = "", files.TypeDir, "rpm", 0o755
			case d.Type()&os.ModeSymlink != 0:
				one.Type = files.TypeSymlink
				one.Source, err = os.Readlink(file)
			case !d.Type().IsRegular():
				err = fmt.Errorf("%s is neither a file nor a link", file)
			default:
				one.FileInfo.Mode, err = modeOf(file)
			}
			expanded = append(expanded, one)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return expanded, nil
}

// modeOf returns the mode of a file in a package by its first bytes.
func modeOf(file string) (os.FileMode, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	head := make([]byte, 4)
	n, err := io.ReadFull(f, head)
	if err != nil && n < 2 && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, err
	}
	if string(head[:n]) == "\x7fELF" || strings.HasPrefix(string(head[:n]), "#!") {
		return 0o755, nil
	}
	return 0o644, nil
}

// fixContents sets times, and requires a mode of each file: that of a checkout depends on
// the umask of its user.
func fixContents(all files.Contents, format string, at time.Time) error {
	for _, c := range all {
		if c.Packager != "" && c.Packager != format {
			continue
		}
		if c.FileInfo == nil {
			c.FileInfo = &files.ContentFileInfo{}
		}
		c.FileInfo.MTime = at
		if c.FileInfo.Mode == 0 && c.Type != files.TypeSymlink {
			return fmt.Errorf("%s has no mode", c.Destination)
		}
		if c.Expand {
			return fmt.Errorf("%s: expand is not supported", c.Destination)
		}
	}
	return nil
}

// writeSums writes SHA256SUMS of all packages in a folder, as sha256sum checks it.
func writeSums(dir string) error {
	var names []string
	for _, ending := range []string{"*.deb", "*.rpm"} {
		found, err := filepath.Glob(filepath.Join(dir, ending))
		if err != nil {
			return err
		}
		names = append(names, found...)
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		h := sha256.New()
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", h.Sum(nil), filepath.Base(name))
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(b.String()), 0o644)
}
