package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// plugin is the program at work.
type plugin struct {
	options
	log io.Writer
	now func() time.Time

	// Of turn alone.
	services map[string]*service // by resource
	said     map[string]string   // what was last told of each subject
	failed   []string            // why pods can't get GPUs

	mu   sync.Mutex // of what follows, and held while leases are changed
	seen machine

	asked   time.Time             // for the kubelet's notes, by turn
	before  os.FileInfo           // the notes when it asked, nil if there were none
	awaited map[awaited]time.Time // when turn first saw each
}

func newPlugin(o options, log io.Writer) *plugin {
	return &plugin{options: o, log: log, now: time.Now, services: map[string]*service{}, said: map[string]string{}}
}

func (p *plugin) socketDir() string { return filepath.Join(p.kubelet, "device-plugins") }

// turn does all that has to be done now. What may be otherwise in a second is no error: it
// is said once.
func (p *plugin) turn(ctx context.Context) error {
	p.failed = nil
	devices := p.look()
	named, err := resources(p.strategy, devices)
	p.report("names", err)
	if st, err := os.Stat(p.socketDir()); err != nil || !st.IsDir() {
		p.report("kubelet", fmt.Errorf("no kubelet has been here: there is no %s", p.socketDir()))
		p.close()
		return nil
	}
	for name, s := range p.services {
		if _, there := named[name]; !there {
			s.stop()
			delete(p.services, name)
		}
	}
	var unheard error
	for name, devices := range named {
		if p.services[name] == nil {
			p.services[name] = newService(p, name)
		}
		s := p.services[name]
		s.offer(listed(devices))
		if err := s.rival(); err != nil {
			s.stop()
			unheard = err
			continue
		}
		switch err := s.listen(); {
		case errors.Is(err, fs.ErrNotExist): // a kubelet starts, which removes the sockets
			unheard = err
			continue
		case err != nil:
			return err
		}
		if s.unheard(p.now()) {
			unheard = errors.Join(unheard, s.register(ctx))
		}
	}
	p.report("kubelet", unheard)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report("leases", p.settle(ctx))
	return nil
}

// look brings what is known of the machine up to date. What held before holds until more
// is known.
func (p *plugin) look() []device {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, err := look(p.root, p.config, p.now)
	if err == nil {
		p.seen = m
	}
	p.report("GPUs", err)
	for _, d := range p.seen.devices {
		p.say(d.id, d.label+" ", d.state())
	}
	return slices.Clone(p.seen.devices)
}

// report notes a failure, and says it where it is another than before.
func (p *plugin) report(subject string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
		p.failed = append(p.failed, text)
	}
	p.say(subject, "", text)
}

// say tells of a subject what changed.
func (p *plugin) say(subject, name, text string) {
	if p.said[subject] == text {
		return
	}
	p.said[subject] = text
	switch {
	case text != "":
		fmt.Fprintln(p.log, name+text)
	case name != "":
		fmt.Fprintln(p.log, name+"can be had by pods")
	default:
		fmt.Fprintln(p.log, subject+": as it should be again")
	}
}

// trouble is why pods can't get GPUs now, "" where they can.
func (p *plugin) trouble() string {
	if len(p.failed) == 0 {
		return ""
	}
	return p.failed[0]
}

// close ends all services, so that the kubelet sees their GPUs go.
func (p *plugin) close() {
	for name, s := range p.services {
		s.stop()
		delete(p.services, name)
	}
}
