package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// subject is one program on one machine, and what was measured of it.
type subject struct {
	name   string
	gpus   int
	cmd    *exec.Cmd
	url    string
	client *http.Client
	p50s   []time.Duration // a round each
	cpus   []time.Duration // a scrape, a round each
	p99    time.Duration
	all    []time.Duration
	rss    float64      // MiB
	body   bytes.Buffer // of the last scrape
	series int
	bytes  int
}

// start runs a program and waits until it serves.
func start(name string, gpus int, program string, args ...string) (*subject, error) {
	s := &subject{name: name, gpus: gpus, client: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
	s.cmd = exec.Command(program, args...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	errs, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(errs)
	for lines.Scan() {
		_, address, ok := strings.Cut(lines.Text(), "istening on ")
		if !ok { // node_exporter: msg="Listening on" address=127.0.0.1:9100
			_, address, ok = strings.Cut(lines.Text(), "address=")
		}
		if ok && strings.Contains(address, "127.0.0.1:") {
			s.url = "http://" + strings.Fields(address)[0] + "/metrics"
			go io.Copy(io.Discard, errs)
			return s, nil
		}
	}
	s.stop()
	return nil, fmt.Errorf("%s does not serve", name)
}

func (s *subject) stop() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

func (s *subject) scrape() error {
	resp, err := s.client.Get(s.url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	s.body.Reset() // kept, so that the client's own work is small
	_, err = s.body.ReadFrom(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", s.name, resp.Status)
	}
	return err
}

// round makes n scrapes.
func (s *subject) round(n int, counts bool) error {
	before, err := s.cpu()
	if err != nil {
		return err
	}
	times := make([]time.Duration, 0, n)
	for range n {
		begin := time.Now()
		if err := s.scrape(); err != nil {
			return err
		}
		times = append(times, time.Since(begin))
	}
	after, err := s.cpu()
	if err != nil || !counts {
		return err
	}
	s.all = append(s.all, times...)
	s.p50s = append(s.p50s, median(times))
	s.cpus = append(s.cpus, (after-before)/time.Duration(n))
	return nil
}

// finish takes what needs to be taken once.
func (s *subject) finish() error {
	if err := s.scrape(); err != nil {
		return err
	}
	body := s.body.String()
	s.bytes = len(body)
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, "#") {
			s.series++
		}
	}
	slices.Sort(s.all)
	s.p99 = s.all[len(s.all)*99/100]
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	s.rss = kib / 1024
	return err
}

// cpu is the time that the program's threads have run, from the scheduler's own
// count: the clock ticks of /proc/PID/stat are too coarse.
func (s *subject) cpu() (sum time.Duration, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", s.cmd.Process.Pid))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("no CPU time of %s: %v", s.name, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return 0, err
		}
		ns, err := strconv.ParseInt(strings.Fields(string(b))[0], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

func median(d []time.Duration) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[len(d)/2]
}
