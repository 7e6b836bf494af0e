// Package signs reads the meaning of the kernel's lines about AMD GPUs and the PCIe ports
// above them, and knows the cards that lines without an address can be about. Table has one
// row for each text. The package reads no log, and never decides what follows from a sign.
package signs

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
	"github.com/fourdollars/concourse-ci-machine/internal/base/pci"
)

// Meaning is the meaning of a text for the GPU and its work.
type Meaning string

// The meanings.
const (
	Harmless  Meaning = "harmless"       // no sign by itself
	Fault     Meaning = "program fault"  // a program used the GPU wrongly
	Stuck     Meaning = "stuck"          // a ring or queue stopped; a reset of it alone may follow
	RingReset Meaning = "ring reset"     // the ring or queue goes on, and one process lost its work
	Hung      Meaning = "hung"           // the GPU or its firmware does not answer
	Reset     Meaning = "reset"          // the whole GPU is reset: its work is lost
	Recovered Meaning = "recovered"      // the reset of the whole GPU succeeded
	Dead      Meaning = "dead"           // a reset failed: the GPU stays away until a reboot
	Lost      Meaning = "lost"           // the card left the bus, or its link is down
	Link      Meaning = "link error"     // packets were damaged on PCIe, or data on XGMI
	Memory    Meaning = "bad data"       // data was lost and could not be repaired
	Worn      Meaning = "failing memory" // memory is about to lose data
)

// Hang reports whether all work on the GPU is lost.
func (m Meaning) Hang() bool { return m == Hung || m == Reset || m == Recovered || m == Dead }

// Sign is a row of the table.
type Sign struct {
	Text    string // its beginning, with "..." for any characters
	Source  string // below drivers/ of the kernel or of AMD's DKMS package
	Meaning Meaning
	Port    bool // the PCI core logs it for a GPU or a port above it

	begin, end string // of Text, which are compared first
	pattern    func() *regexp.Regexp
}

// Found is the meaning of a line.
type Found struct {
	*Sign         // nil for a line that names only a process
	Device string // PCI address of the GPU or the port; "" for a line without one
	PID    int    // the process that the line names, or 0
}

// Pattern returns the regular expression (RE2) of a text.
func (s *Sign) Pattern() string {
	return strings.ReplaceAll(regexp.QuoteMeta(s.Text), `\.\.\.`, `.*?`)
}

// Table has the first matching row of a text first.
var Table = compile()

func compile() []Sign {
	all := append(append([]Sign{}, exceptions...), rows...)
	for i := range all {
		parts := strings.Split(all[i].Text, "...")
		all[i].begin, all[i].end = parts[0], parts[len(parts)-1]
		// At its first use, because most programs with this table read no line.
		all[i].pattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^" + all[i].Pattern()) })
	}
	return all
}

// The patterns of prefixes and names. A task chooses the names of its processes, which have
// at most 15 bytes. No line that begins with such a name has one of these prefixes and a text
// of the table after it.
var (
	prefix  = lazyregexp.New(`^(amdgpu|pcieport|pciehp) ([0-9a-f:]{10,14}\.[0-7])(?::pcie\d+)?: `)
	driver  = lazyregexp.New(`^(?:(?:kfd kfd: )?amdgpu: |\[drm:[\w.]+ \[amdgpu\]\] |\[drm\] )`)
	service = lazyregexp.New(`^(?:AER|DPC|pciehp): `)
	marks   = lazyregexp.New(`^(?:amdgpu: |\[drm:[\w.]+(?: \[amdgpu\])?\] |\[drm\] |\[powerplay\] |` +
		`\*ERROR\* |\{\d+\})`)
	process = []func() *regexp.Regexp{
		lazyregexp.New(`(?:^|[ ,])[Pp]rocess .{0,15} pid (\d+) thread `),
		lazyregexp.New(`(?:^|[ ,])[Pp]rocess .{0,15} pid (\d+)\)?$`),
		lazyregexp.New(`^Process (\d+) \(pasid`),
	}
)

// Read returns the meaning of a line of the kernel itself. ok is false for a line that is
// neither a sign nor about a process of a GPU.
func Read(line string) (f Found, ok bool) {
	of, text := "", ""
	if p := prefix().FindStringSubmatch(line); p != nil {
		of, f.Device, text = p[1], p[2], line[len(p[0]):]
	} else if p := driver().FindString(line); p != "" {
		of, text = "amdgpu", line[len(p):]
	}
	if of == "" || f.Device != "" && !pci.IsFull(f.Device) {
		return Found{}, false
	}
	if of == "amdgpu" {
		for m := marks().FindString(text); m != ""; m = marks().FindString(text) {
			text = text[len(m):]
		}
		f.PID = pidOf(text)
	}
	text = strings.TrimPrefix(text, service().FindString(text))
	for i := range Table {
		s := &Table[i]
		readable := of == "amdgpu" && f.Device != "" || s.Port == (of != "amdgpu")
		near := readable && strings.HasPrefix(text, s.begin) && strings.Contains(text, s.end)
		if near && s.pattern().MatchString(text) {
			f.Sign = s
			break
		}
	}
	return f, f.Sign != nil || f.PID > 0
}

func pidOf(text string) int {
	for _, p := range process {
		if found := p().FindStringSubmatch(text); found != nil {
			n, _ := strconv.Atoi(found[1])
			return min(n, math.MaxInt32)
		}
	}
	return 0
}

// Cards returns the addresses of all cards of the driver amdgpu. A container has the log of
// its host, so these include cards that other containers use.
func Cards(root host.Root) (cards []string) {
	entries, _ := root.ReadDir("/sys/bus/pci/drivers/amdgpu")
	for _, e := range entries {
		if pci.IsFull(e.Name()) {
			cards = append(cards, e.Name())
		}
	}
	return cards
}
