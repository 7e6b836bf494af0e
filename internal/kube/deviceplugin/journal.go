package deviceplugin

import (
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Journal logs changes of GPUs and failures, and keeps the failures of now. The DRA driver has
// one, too.
type Journal struct {
	log   io.Writer
	users string // of GPUs: "pods" or "claims"

	mu     sync.Mutex
	logged map[string]string // the last logged text of each subject
	failed map[string]string // why users cannot get GPUs, by subject
}

// NewJournal returns a journal for the users of GPUs: "pods" or "claims".
func NewJournal(log io.Writer, users string) *Journal {
	return &Journal{log: log, users: users, logged: map[string]string{}, failed: map[string]string{}}
}

// Report records a failure or the end of one, and logs it if it is new.
func (j *Journal) Report(subject string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if delete(j.failed, subject); err != nil {
		j.failed[subject] = err.Error()
	}
	j.change(subject, "", j.failed[subject])
}

// ReportEvents logs the first failure to write Events and the recovery from it. Users get GPUs
// without Events.
func (j *Journal) ReportEvents(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case err == nil:
		j.change(events, "", "")
	case j.logged[events] == "":
		j.change(events, "", err.Error())
	}
}

// ForgetEvents forgets the failure to write Events that are no longer needed.
func (j *Journal) ForgetEvents() {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.logged, events)
}

// events names the subject of ReportEvents.
const events = "events"

// LogChange logs the state of a GPU with this name if it is new; "" if users can have the GPU.
func (j *Journal) LogChange(gpu, name, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.change(gpu, name+" ", text)
}

// change logs the text of a subject if it is new. The caller holds mu.
func (j *Journal) change(subject, name, text string) {
	if j.logged[subject] == text {
		return
	}
	j.logged[subject] = text
	switch {
	case text != "":
		fmt.Fprintln(j.log, name+text)
	case name != "":
		fmt.Fprintln(j.log, name+"is available to "+j.users)
	default:
		fmt.Fprintln(j.log, subject+": recovered")
	}
}

// Print logs a text.
func (j *Journal) Print(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintln(j.log, text)
}

// Trouble returns why users cannot get GPUs now, and "" if they can.
func (j *Journal) Trouble() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	subjects := slices.Sorted(maps.Keys(j.failed))
	if len(subjects) == 0 {
		return ""
	}
	return j.failed[subjects[0]]
}

// NotifySystemd reports to systemd, if it started this program, that it is alive and
// whether users can get GPUs. Then StatusErrno is 0, and the status is well.
func (j *Journal) NotifySystemd(well string) {
	state := "READY=1\nWATCHDOG=1\nERRNO=0\nSTATUS=" + well
	if trouble := j.Trouble(); trouble != "" {
		state = "READY=1\nWATCHDOG=1\nERRNO=107\nSTATUS=" + strings.ReplaceAll(trouble, "\n", "; ") // ENOTCONN
	}
	if _, err := daemon.SdNotify(false, state); err != nil {
		j.Print("cannot notify systemd: " + err.Error())
	}
}

// Answers reports whether a program listens on the socket.
func Answers(socket string) bool {
	c, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return false
	}
	c.Close()
	return true
}
