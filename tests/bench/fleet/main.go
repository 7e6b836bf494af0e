// Command fleet measures the fleet page of concourse-exporter with 100 workers of 8 GPUs:
// the CPU time of one round of questions, the time to answer requests, and the memory. The
// workers and Concourse are servers in this process, with answers as large as those of
// rocm-exporter after 15 minutes. It prints a table with the goals and asserts nothing. It
// needs no root and no GPU.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	interval   = 5 * time.Second  // between rounds here
	shipped    = 30 * time.Second // between rounds by default
	maxShare   = 0.01             // of a core
	maxLatency = 200 * time.Millisecond
)

func main() {
	workers := flag.Int("workers", 100, "number of workers")
	gpus := flag.Int("gpus", 8, "number of GPUs of a worker")
	rounds := flag.Int("rounds", 12, "rounds of questions")
	flag.Parse()
	if err := run(*workers, *gpus, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "cannot measure the fleet page:", err)
		os.Exit(1)
	}
}

func run(workers, gpus, rounds int) error {
	dir, err := os.MkdirTemp("", "fleet-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "concourse-exporter")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", bin,
		"github.com/fourdollars/concourse-ci-machine/src/concourse-exporter")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build concourse-exporter: %w\n%s", err, out)
	}
	site, err := newSite(dir, workers, gpus)
	if err != nil {
		return err
	}
	defer site.close()
	cmd := exec.Command(bin, "--web.listen-address=127.0.0.1:0", "--credentials-file="+site.credentials,
		"--fleet.file="+site.file, "--poll.interval="+interval.String(), "--poll.timeout="+interval.String())
	errs, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	line, err := bufio.NewReader(errs).ReadString('\n')
	_, address, found := strings.Cut(strings.TrimSpace(line), "listening on ")
	if err != nil || !found {
		return fmt.Errorf("concourse-exporter does not start: %s", line)
	}
	site.wait(2)
	before, err := cpu(cmd.Process.Pid)
	if err != nil {
		return err
	}
	from := site.rounds()
	site.wait(from + rounds)
	after, err := cpu(cmd.Process.Pid)
	if err != nil {
		return err
	}
	perRound := (after - before) / time.Duration(site.rounds()-from)
	share := perRound.Seconds() / shipped.Seconds()
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err
	}
	fmt.Printf("%d workers with %d GPUs, %d KiB an answer, %d rounds, load of the machine %s\n", workers, gpus,
		site.size>>10, rounds, strings.Fields(string(load))[0])
	fmt.Printf("%-28s %10s   goal: under %g %% of a core every %s: %s\n", "CPU of a round",
		perRound.Round(100*time.Microsecond), 100*maxShare, shipped,
		verdict(share < maxShare, fmt.Sprintf("%.2f %%", 100*share)))
	for _, path := range []string{"/", "/api/v1/fleet"} {
		times, size, err := latencies("http://"+address+path, 50)
		if err != nil {
			return err
		}
		last := times[len(times)-1]
		fmt.Printf("%-28s %10s   goal: at most %s: %s, %d KiB\n", "median answer of "+path,
			times[len(times)/2].Round(100*time.Microsecond), maxLatency,
			verdict(last <= maxLatency, "longest "+last.Round(100*time.Microsecond).String()), size>>10)
	}
	kib, err := memory(cmd.Process.Pid)
	fmt.Printf("%-28s %6d KiB   with the ring of 24 hours, which has a fixed size\n", "resident memory", kib)
	return err
}

func verdict(met bool, text string) string {
	if met {
		return "met, " + text
	}
	return "MISSED, " + text
}

// latencies returns the times of requests, sorted, and the size of an answer.
func latencies(url string, n int) (times []time.Duration, size int64, err error) {
	for range n {
		start := time.Now()
		resp, err := http.Get(url)
		if err != nil {
			return nil, 0, err
		}
		size, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			return nil, 0, fmt.Errorf("%s answers %s", url, resp.Status)
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	return times, size, nil
}

// cpu returns the time that a process used on all cores.
func cpu(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, err // 100 ticks a second
}

// memory returns the resident memory of a process.
func memory(pid int) (kib int, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(data), "VmRSS:")
	return strconv.Atoi(strings.Fields(rest)[0])
}
