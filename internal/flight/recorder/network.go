package recorder

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/flight/taskrecord"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/sysfile"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/lease"
)

// netFile reads a file of the container's network namespace.
func (r *Recorder) netFile(c *container, name string) ([]byte, bool) {
	n, err := sysfile.Fill(filepath.Join(r.proc, strconv.Itoa(c.init.pid), "net", name), r.page)
	return r.page[:max(n, 0)], err == nil
}

// sharesNetwork reports whether a run or container has the network of the machine. Its
// counters are of all programs.
func (r *Recorder) sharesNetwork(c *container) bool {
	if c.kind == lease.Task {
		return false
	}
	own, err := os.Readlink(filepath.Join(r.proc, strconv.Itoa(c.init.pid), "ns/net"))
	first, failed := os.Readlink(filepath.Join(r.proc, "1/ns/net"))
	return err != nil || failed != nil || own == first
}

// addNetwork reads the counters of the container's network. It reads them through the
// container's first process, which sees the namespace of the container.
func (r *Recorder) addNetwork(c *container, s *taskrecord.Sample) {
	if p, alive := r.process(c.init.pid); !alive || p != c.init {
		return
	}
	if data, ok := r.netFile(c, "dev"); ok {
		in, out, errors := devices(data)
		s.Values[taskrecord.NetReceived], s.Values[taskrecord.NetSent] = in, out
		s.Values[taskrecord.NetErrors] = errors
	}
	if data, ok := r.netFile(c, "snmp"); ok {
		for _, f := range []struct {
			protocol, field string
			counter         int
		}{
			{"Tcp:", "OutSegs", taskrecord.TCPSegments}, {"Tcp:", "RetransSegs", taskrecord.TCPResent},
			{"Tcp:", "CurrEstab", taskrecord.TCPOpen}, {"Udp:", "OutDatagrams", taskrecord.UDPSent},
			{"Udp:", "InDatagrams", taskrecord.UDPReceived},
		} {
			if v, ok := snmp(data, f.protocol, f.field); ok {
				s.Values[f.counter] = v
			}
		}
	}
	if data, ok := r.netFile(c, "netstat"); ok {
		if v, ok := snmp(data, "TcpExt:", "TCPSynRetrans"); ok {
			s.Values[taskrecord.TCPSynResent] = v
		}
	}
	select {
	case c.servers = <-c.reading:
	default:
	}
	waiting, known := int64(0), false
	for _, name := range []string{"udp", "udp6"} {
		if data, ok := r.netFile(c, name); ok {
			waiting, known = waiting+sockets(data, 53, "", c.asksGiven), true
		}
	}
	if known {
		s.Values[taskrecord.DNSWaiting] = waiting
	}
}

// devices sums the counters of /proc/net/dev but those of the loopback device.
func devices(data []byte) (in, out, errors int64) {
	for line := range bytes.Lines(data) {
		name, rest, ok := bytes.Cut(line, []byte(":"))
		f := bytes.Fields(rest)
		if !ok || len(f) < 12 || string(bytes.TrimSpace(name)) == "lo" {
			continue
		}
		n := func(i int) int64 { v, _ := strconv.ParseInt(string(f[i]), 10, 64); return v }
		in, out = in+n(0), out+n(8)
		errors += n(2) + n(3) + n(10) + n(11)
	}
	return in, out, errors
}

// snmp finds a field in /proc/net/snmp and netstat: a line of names, and a line of values.
func snmp(data []byte, protocol, field string) (int64, bool) {
	var names [][]byte
	for line := range bytes.Lines(data) {
		f := bytes.Fields(line)
		if len(f) == 0 || string(f[0]) != protocol {
			continue
		}
		if names == nil {
			names = f
			continue
		}
		for i := range min(len(names), len(f)) {
			if string(names[i]) == field {
				v, err := strconv.ParseInt(string(f[i]), 10, 64)
				return v, err == nil
			}
		}
		return 0, false
	}
	return 0, false
}

// elsewhere reports whether a socket's remote address is not the container's own: 127.0.0.0/8
// and ::1 are in the byte order of the machine, and a server of the task has its local address.
func elsewhere(local, remote []byte) bool {
	v4 := len(remote) == 8 && bytes.HasSuffix(remote, []byte("7F"))
	mapped := len(remote) == 32 && bytes.HasPrefix(remote, []byte("0000000000000000FFFF0000")) &&
		bytes.HasSuffix(remote, []byte("7F"))
	return !v4 && !mapped && string(remote) != "00000000000000000000000001000000" && !bytes.Equal(local, remote)
}

// asksGiven reports whether a socket's remote address is a name server that Concourse gave, or
// any one elsewhere if those are unknown.
func (c *container) asksGiven(local, remote []byte) bool {
	return elsewhere(local, remote) && (c.servers == nil ||
		slices.ContainsFunc(c.servers, func(s string) bool { return bytes.HasSuffix(remote, []byte(s)) }))
}

// readServers reads the name servers of a container.
func (r *Recorder) readServers(c *container) {
	result := make(chan []string, 1)
	c.reading = result
	root, made := filepath.Join(r.proc, strconv.Itoa(c.init.pid), "root"), filepath.Join(c.bundle, "init.pid")
	r.Copy(func() { result <- givenServers(root, made) })
}

// givenServers returns the name servers that Concourse gave a container, as the kernel's tables
// have them, or nil if they are unknown. A file that is newer than the container is the
// task's own, and has none of them.
func givenServers(root, made string) []string {
	// A link could lead out of the container, and the service may not call openat2
	// (RestrictSUIDSGID).
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(dir)
	etc, err := unix.Openat(dir, "etc", unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(etc)
	fd, err := unix.Openat(etc, "resolv.conf",
		unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), "resolv.conf")
	defer f.Close()
	st, err := f.Stat()
	began, failed := os.Stat(made)
	switch {
	case err != nil || failed != nil || !st.Mode().IsRegular():
		return nil
	case st.ModTime().After(began.ModTime()):
		return []string{}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxResolver))
	if err != nil {
		return nil
	}
	return nameServers(string(data))
}

// maxResolver bounds the bytes of a resolv.conf.
const maxResolver = 4 << 10

// nameServers returns the addresses of resolv.conf, in hexadecimal words of this machine.
func nameServers(text string) (all []string) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "nameserver" {
			continue
		}
		a, err := netip.ParseAddr(f[1])
		if err != nil {
			continue
		}
		words := ""
		for b := a.AsSlice(); len(b) > 0; b = b[4:] {
			words += fmt.Sprintf("%08X", binary.NativeEndian.Uint32(b))
		}
		all = append(all, words)
	}
	return all
}

// anywhere accepts all sockets.
func anywhere(_, _ []byte) bool { return true }

// sockets counts the sockets of a table with this remote port, and this state unless "", with
// accepted addresses.
func sockets(data []byte, port int, state string, accept func(local, remote []byte) bool) (n int64) {
	for line := range bytes.Lines(data) {
		f := bytes.Fields(line)
		if len(f) < 4 || state != "" && string(f[3]) != state {
			continue
		}
		local, _, _ := bytes.Cut(f[1], []byte(":"))
		remote, hex, ok := bytes.Cut(f[2], []byte(":"))
		v, err := strconv.ParseUint(string(hex), 16, 16)
		if ok && err == nil && int(v) == port && accept(local, remote) {
			n++
		}
	}
	return n
}

// webConnections counts the worker's connections to webs.
func (r *Recorder) webConnections() (n int64, ok bool) {
	const established = "01"
	for _, name := range []string{"net/tcp", "net/tcp6"} {
		if data, read := r.file(name); read {
			n, ok = n+sockets(data, wellknown.TSAPort, established, anywhere), true
		}
	}
	return n, ok
}
