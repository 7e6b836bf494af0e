// The command floor serves what is in its plan, at the least cost that net/http allows:
// descriptors that stay open, one pread a file, text put together by hand. Nothing is
// checked, and a GPU that hangs would hang it. It is what the exporter is measured against.
// With "library" after the plan it writes by client_golang.
package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"

	"github.com/fourdollars/concourse-ci-machine/tests/bench/exporter/floorplan"
)

func main() {
	if err := run(os.Args[1], len(os.Args) > 2 && os.Args[2] == "library"); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func run(file string, library bool) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var plan floorplan.Plan
	if err := json.Unmarshal(b, &plan); err != nil {
		return err
	}
	f := &floor{plan: plan, pages: make([][4096]byte, len(plan.Files)), n: make([]int, len(plan.Files))}
	for _, name := range plan.Files {
		fd, err := syscall.Open(name, syscall.O_RDONLY, 0)
		if err != nil {
			return err
		}
		f.fds = append(f.fds, fd)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "floor: listening on", l.Addr())
	if !library {
		return http.Serve(l, f)
	}
	h, err := newLibrary(f)
	if err != nil {
		return err
	}
	return http.Serve(l, h)
}

type floor struct {
	plan  floorplan.Plan
	fds   []int
	pages [][4096]byte
	n     []int
	out   []byte
}

// ServeHTTP is for one scrape at a time, as the benchmark makes them.
func (f *floor) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	f.read()
	f.render()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	w.Header().Set("Content-Length", strconv.Itoa(len(f.out)))
	w.Write(f.out)
}

func (f *floor) read() {
	for i, fd := range f.fds {
		f.n[i], _ = syscall.Pread(fd, f.pages[i][:], 0)
	}
}

func (f *floor) render() []byte {
	f.out = f.out[:0]
	for i := range f.plan.Parts {
		p := &f.plan.Parts[i]
		f.out = append(f.out, p.Text...)
		if p.Value {
			v := f.number(p) * p.Times / p.Per
			if n := int64(v); float64(n) == v {
				f.out = strconv.AppendInt(f.out, n, 10)
			} else {
				f.out = strconv.AppendFloat(f.out, v, 'g', -1, 64)
			}
			f.out = append(f.out, '\n')
		}
	}
	return f.out
}

func (f *floor) number(p *floorplan.Part) float64 {
	b := f.pages[p.File][:f.n[p.File]]
	switch p.Size {
	case 2:
		return float64(binary.LittleEndian.Uint16(b[p.Offset:]))
	case 4:
		return float64(binary.LittleEndian.Uint32(b[p.Offset:]))
	case 8:
		return float64(binary.LittleEndian.Uint64(b[p.Offset:]))
	}
	n, _ := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	return float64(n)
}
