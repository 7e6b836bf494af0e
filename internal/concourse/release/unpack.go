package release

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"
	"syscall"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// limits bound the files and bytes of a tarball. A release has about 200 files and 2.5 GB.
type limits struct {
	entries int
	bytes   int64
}

var releaseLimits = limits{entries: 100_000, bytes: 16 << 30}

// problem describes a defect of the tarball. Other errors are the machine's.
type problem string

func (p problem) Error() string { return string(p) }

// untar unpacks a gzipped tarball of the folder concourse/ into dir, which is empty. It
// works below an os.Root, so that no link can cause a write outside dir. Entries that try
// are refused with their name. Owners and special mode bits are dropped.
func untar(ctx context.Context, dir string, r io.Reader, max limits) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	zr, err := gzip.NewReader(r)
	if err != nil {
		return problem("it is not a gzipped tarball: " + err.Error())
	}
	tr, links := tar.NewReader(zr), []string(nil)
	for n := 0; ; n++ {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return problem("it is damaged or cut off: " + err.Error())
		}
		if max.bytes -= h.Size; n >= max.entries || h.Size < 0 || max.bytes < 0 {
			return problem("it has more files or bytes than any release")
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		name, err := entryName(h.Name)
		if err != nil {
			return err
		}
		if name == "" {
			continue
		}
		if err := unpackEntry(root, tr, h, name); err != nil {
			return err
		}
		if h.Typeflag == tar.TypeSymlink {
			links = append(links, name)
		}
	}
	// The sum at the end of the gzip stream is checked only when it is read.
	if _, err := io.Copy(io.Discard, io.LimitReader(zr, 1<<20)); err != nil {
		return problem("it is damaged or cut off: " + err.Error())
	}
	for _, l := range links {
		if _, err := root.Stat(l); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return problem(fmt.Sprintf("the link %q leads out of the release", l))
		}
	}
	return nil
}

// entryName returns the name without the leading folder, or "" for that folder.
func entryName(name string) (string, error) {
	bad := problem(fmt.Sprintf("the entry %q is not below concourse/", name))
	if strings.HasPrefix(name, "/") || strings.ContainsRune(name, 0) || len(name) > 4096 {
		return "", bad
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", bad
		}
	}
	clean := path.Clean(name)
	switch rest, ok := strings.CutPrefix(clean, "concourse/"); {
	case ok:
		return rest, nil
	case clean == "concourse" || clean == ".":
		return "", nil
	}
	return "", bad
}

func unpackEntry(root *os.Root, tr io.Reader, h *tar.Header, name string) error {
	if h.Typeflag == tar.TypeDir {
		return refused(name, root.MkdirAll(name, 0o755))
	}
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return refused(name, err)
	}
	switch h.Typeflag {
	case tar.TypeReg:
		return unpackFile(root, tr, h, name)
	case tar.TypeSymlink:
		if path.IsAbs(h.Linkname) || !inside(path.Join(path.Dir(name), h.Linkname)) {
			return problem(fmt.Sprintf("the link %q leads out of the release", name))
		}
		return refused(name, root.Symlink(h.Linkname, name))
	case tar.TypeLink:
		to, err := entryName(h.Linkname)
		if err != nil || to == "" {
			return problem(fmt.Sprintf("the link %q leads out of the release", name))
		}
		// A hard link to a symbolic link would resolve differently under its second name.
		if st, err := root.Lstat(to); err == nil && st.Mode()&fs.ModeSymlink != 0 {
			return problem(fmt.Sprintf("the link %q leads out of the release: it is a hard link to a symbolic one",
				name))
		}
		return refused(name, root.Link(to, name))
	case tar.TypeXGlobalHeader:
		return nil
	}
	return problem(fmt.Sprintf("the entry %q is neither file, folder nor link", name))
}

func unpackFile(root *os.Root, tr io.Reader, h *tar.Header, name string) error {
	mode := fs.FileMode(0o644)
	if h.Mode&0o111 != 0 {
		mode = 0o755
		// A process that starts meanwhile would have the program open until it executes its
		// own, and starting a program that is open for writing fails (ETXTBSY).
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return refused(name, err)
	}
	defer f.Close()
	if _, err := io.Copy(f, tr); err != nil {
		if _, ok := errors.AsType[*fs.PathError](err); ok {
			return err
		}
		return problem("it is damaged or cut off: " + err.Error())
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	return f.Sync()
}

// refused classifies errors of os.Root. A conflict of names comes from the tarball, and the
// rest, such as a full disk, from the machine.
func refused(name string, err error) error {
	if err == nil || errors.Is(err, fs.ErrPermission) {
		return err
	}
	var errno interface{ Temporary() bool } // syscall.Errno
	var linkErr *os.LinkError
	if errors.Is(err, fs.ErrExist) || errors.As(err, &linkErr) || !errors.As(err, &errno) {
		return problem(fmt.Sprintf("the entry %q can't be unpacked: %v", name, err))
	}
	return err
}

func inside(p string) bool { return p != ".." && !strings.HasPrefix(p, "../") }

// UnpackFly writes Concourse's command line tool of an installed release to a file.
func UnpackFly(h host.Host, id, file string) error {
	from := path.Join(Dir, id, "fly-assets", "fly-linux-"+runtime.GOARCH+".tgz")
	f, err := os.Open(h.Path(from))
	if err != nil {
		return fmt.Errorf("cannot install fly: %w", err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("cannot install fly: %s is damaged: %w", from, err)
	}
	for tr := tar.NewReader(zr); ; {
		entry, err := tr.Next()
		if err != nil {
			return fmt.Errorf("cannot install fly: %s has no program fly: %w", from, err)
		}
		if path.Clean(entry.Name) != "fly" || entry.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(io.LimitReader(tr, 1<<30))
		if err != nil {
			return fmt.Errorf("cannot install fly: %s is damaged: %w", from, err)
		}
		return h.WriteFile(file, data, 0o755)
	}
}
