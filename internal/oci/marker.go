package oci

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"concourse-ci-machine/internal/base/rawjson"
	"concourse-ci-machine/internal/gpu/cdispec/edits"
)

// marker remembers, from create to exec, what each process of a container
// needs: Concourse takes the environment of an exec from its own records, not
// from the config.json that create changed, and groups from /etc/passwd. And
// which GPUs the container leased.
type marker struct {
	bundle  string // absolute; the marker is void when this is gone
	process edits.Process
	lease   held // none where GPUs are shared
}

func (k marker) none() bool { return k.process.None() && k.lease.none() }

func (k marker) appendTo(out []byte) []byte {
	out = rawjson.AppendString(append(out, `{"bundle":`...), k.bundle)
	out = append(out, `,"groups":[`...)
	for i, g := range k.process.Groups {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendUint(out, uint64(g), 10)
	}
	out = rawjson.AppendStrings(append(out, `],"set":`...), k.process.Env.Set)
	out = rawjson.AppendStrings(append(out, `,"defaults":`...), k.process.Env.Defaults)
	if !k.lease.none() {
		out = k.lease.appendTo(append(out, `,"lease":`...))
	}
	return append(out, '}')
}

func decodeMarker(data []byte) (k marker, err error) {
	doc, err := rawjson.Parse(data)
	if err != nil {
		return k, err
	}
	if k.bundle, err = doc.Root().StringOf("bundle"); err != nil {
		return k, err
	}
	groups, err := doc.Root().Of("groups", rawjson.Array)
	if err != nil {
		return k, err
	}
	for v := range groups.Elements() {
		g, err := v.Whole(1<<32 - 1)
		if err != nil {
			return k, err
		}
		k.process.Groups = append(k.process.Groups, uint32(g))
	}
	if k.process.Env.Set, err = doc.Root().Strings("set"); err != nil {
		return k, err
	}
	if k.process.Env.Defaults, err = doc.Root().Strings("defaults"); err != nil {
		return k, err
	}
	k.lease, err = decodeHeld(doc.Root())
	return k, err
}

// markers is a directory of mode 0700 with one file of mode 0600 a container.
type markers struct {
	dir  string
	euid uint32
	now  time.Time
}

func (w *wrapper) markers(dir string) markers { return markers{dir, w.euid, w.now()} }

// path refuses IDs that are no plain file name; runc refuses them too.
func (m markers) path(id string) (string, error) {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+.-"
	invalid := strings.ContainsFunc(id, func(r rune) bool { return !strings.ContainsRune(allowed, r) })
	if id == "" || id == "." || id == ".." || len(id) > 200 || invalid {
		return "", fmt.Errorf("cannot use container ID %q: it has to be at most 200 letters, digits, _, +, . and -", id)
	}
	return filepath.Join(m.dir, id), nil
}

// load returns what exec has to add; nothing is the usual case.
func (m markers) load(id string) (marker, error) {
	path, err := m.path(id)
	if err != nil {
		return marker{}, err
	}
	data, st, err := readRegular(path, true)
	if errors.Is(err, unix.ENOENT) {
		return marker{}, nil
	}
	if err == nil && st.Uid != m.euid {
		err = fmt.Errorf("it belongs to user %d", st.Uid)
	}
	var k marker
	if err == nil {
		k, err = decodeMarker(data)
	}
	if err != nil {
		return marker{}, fmt.Errorf("cannot read marker %s: %w", path, err)
	}
	return k, nil
}

// save puts the marker in the place of another in one step and, now and then,
// drops some of containers that are gone.
func (m markers) save(id string, k marker) error {
	path, err := m.path(id)
	if err != nil {
		return err
	}
	if err := privateDir(m.dir, m.euid); err != nil {
		return err
	}
	if m.now.Nanosecond()/1000%sweepEvery == 0 { // as good as a die
		m.sweep()
	}
	if k.bundle, err = filepath.Abs(k.bundle); err != nil {
		return err
	}
	temp := m.dir + "/%" + strconv.Itoa(os.Getpid()) // no ID has a %
	if err = writeNew(temp, k.appendTo(nil)); err == nil {
		err = unix.Rename(temp, path)
	}
	if err != nil {
		_ = unix.Unlink(temp) // the error that counts is the one before
		return fmt.Errorf("cannot write marker of container %s: %w", id, err)
	}
	return nil
}

// remove drops the marker of an earlier container of the same name.
func (m markers) remove(id string) error {
	path, err := m.path(id)
	if err != nil {
		return err
	}
	if err := unix.Unlink(path); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("cannot remove marker of an earlier container: %w", err)
	}
	return nil
}
