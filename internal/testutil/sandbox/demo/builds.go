package demo

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/guest"
)

// pipelineName is the name of the demo's pipeline.
const pipelineName = "gpus"

// job is one job of the pipeline. Its task opens its GPU, and ends when its file is there.
const job = `- name: %[1]s
  plan:
  - task: %[1]s
    tags: [gpu]
    config:
      platform: linux
      image_resource: {type: mock, source: {mirror_self: true}, version: {version: mock}}
      run:
        path: sh
        args:
        - -ec
        - |
          gpu=$(cd /dev/dri && echo renderD*)
          [ -c "/dev/dri/$gpu" ] || { echo has not exactly one GPU: $gpu; exit 1; }
          : <>"/dev/dri/$gpu"
          echo has opened its GPU: $gpu
          while [ ! -e /srv/demo/end-%[1]s ]; do sleep 1; done
          echo has ended
`

// Texts in lines of builds. fly also prints the script of a task.
const (
	opened  = "has opened its GPU: renderD"
	waits   = "no suitable workers found"
	sickens = "1 uncorrectable error" // in the machine's notice of the fault, not in the one about the lease
)

// jobs are the jobs of the pipeline.
var jobs = []string{"train", "test", "report"}

// build is a build that fly watches.
type build struct {
	job   string
	mu    sync.Mutex
	out   strings.Builder
	ended bool
	err   error
}

// text returns the build's output until now, and whether the build has ended.
func (b *build) text() (out string, ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.String(), b.ended
}

// line returns the last line of the build's output that contains one of the texts.
func (b *build) line(texts ...string) string {
	found := ""
	out, _ := b.text()
	for line := range strings.Lines(out) {
		if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(line, text) }) {
			found = strings.TrimSpace(colour.ReplaceAllString(line, ""))
		}
	}
	return found
}

// colour matches the colours of fly's output.
var colour = regexp.MustCompile("\x1b\\[[0-9;]*m")

// start starts a build of a job, and watches it.
func (c *ci) start(name string) (*build, error) {
	command := fmt.Sprintf("fly -t demo trigger-job -j %s/%s -w", pipelineName, name)
	c.screen.item("$", "%s", command)
	if err := os.RemoveAll(c.guest.Root.Path("/srv/demo/end-" + name)); err != nil {
		return nil, err
	}
	argv := c.guest.Enter([]string{"PATH=" + guest.Path, "HOME=/root"}, "/bin/sh", "-c", command)
	cmd := exec.CommandContext(c.ctx, argv[0], argv[1:]...)
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	b := &build{job: name}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewReader(r); ; {
			text, err := lines.ReadString('\n')
			fmt.Fprintf(c.log, "%s: %s\n", name, strings.TrimSpace(text))
			b.mu.Lock()
			b.out.WriteString(text)
			b.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() {
		err := cmd.Wait()
		w.Close()
		<-read
		b.mu.Lock()
		defer b.mu.Unlock()
		b.ended, b.err = true, err
	}()
	c.running[name] = b
	return b, nil
}

// wait waits until the build's output contains one of the texts, and returns the line.
func (c *ci) wait(b *build, what string, texts ...string) (line string, err error) {
	err = c.screen.work(what, func(report func(string)) error {
		return c.until(what, func() (bool, error) {
			line = b.line(texts...)
			out, ended := b.text()
			if line == "" && ended {
				return false, fmt.Errorf("cannot see that %s: the build %s ended: %s", what, b.job,
					strings.Join(strings.Fields(out), " "))
			}
			last := strings.TrimSpace(out)
			report(last[strings.LastIndex(last, "\n")+1:])
			return line != "", nil
		})
	})
	return line, err
}

// finish lets a build end, which must succeed.
func (c *ci) finish(b *build) error {
	if err := c.guest.Root.WriteFile("/srv/demo/end-"+b.job, nil, 0o644); err != nil {
		return err
	}
	err := c.until("the build "+b.job+" ends", func() (bool, error) {
		_, ended := b.text()
		return ended, nil
	})
	if out, _ := b.text(); err == nil && b.err != nil {
		err = fmt.Errorf("cannot see a green build: %s: %w: %s", b.job, b.err, strings.Join(strings.Fields(out), " "))
	}
	delete(c.running, b.job)
	return err
}

// quote prints a line of a build's output.
func (c *ci) quote(b *build, line string) { c.screen.item(b.job, "%s", line) }

// firstBuild sets the pipeline and runs a build on a GPU.
func (c *ci) firstBuild() (string, error) {
	c.screen.title("A build on its GPU")
	login := "fly -t demo login -c " + c.url + " -u admin -p "
	c.screen.item("$", "%s...", login)
	if _, err := c.in(login + `"$(` + getPassword + `)"`); err != nil {
		return "", err
	}
	text := "jobs:\n"
	for _, name := range jobs {
		text += fmt.Sprintf(job, name)
	}
	if err := c.guest.Root.WriteFile("/root/"+pipelineName+".yml", []byte(text), 0o644); err != nil {
		return "", err
	}
	for _, command := range []string{"set-pipeline -n -p " + pipelineName + " -c /root/" + pipelineName + ".yml",
		"unpause-pipeline -p " + pipelineName} {
		c.screen.item("$", "fly -t demo %s", command)
		if _, err := c.in("fly -t demo " + command); err != nil {
			return "", err
		}
	}
	c.screen.item("pipeline", "the jobs %s; each opens one GPU and works until the demo lets it end",
		strings.Join(jobs, ", "))
	b, err := c.start("train")
	if err != nil {
		return "", err
	}
	line, err := c.wait(b, "train gets a GPU", opened)
	if err != nil {
		return "", err
	}
	c.quote(b, line)
	_, err = c.shows(gpuStatus)
	return b.job + " " + line, err
}

// gpuStatus prints the leases and the quarantined GPUs.
const gpuStatus = "concourse-ci-machine gpu status"
