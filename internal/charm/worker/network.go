package worker

import (
	"context"
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// Names that Concourse gives to the network of tasks (concourse/worker/runtime/cni_network.go).
const (
	taskBridge = "concourse0"
	taskChain  = "CONCOURSE-OPERATOR"
	taskRule   = `--comment "name: \"concourse\" id:` // in nat, for each container
	cniChain   = "CNI-FORWARD"                        // shared with other users of CNI
	cniRecords = "/var/lib/cni"                       // likewise
)

// NoTaskNetwork removes the bridge of tasks, and the rules of iptables and records of CNI for
// them, which Concourse leaves when it ends. Those of other programs stay.
type NoTaskNetwork struct{ Why string }

// Diff implements plan.Resource.
func (n NoTaskNetwork) Diff(ctx context.Context, h host.Host) (p plan.Plan, err error) {
	for _, family := range []string{"iptables", "ip6tables"} {
		if findTaskRules(ctx, h, family) != "" {
			p = append(p, plan.Step{Op: "remove the rules for tasks with " + family, Why: n.Why, Tolerate: true,
				Do: func(ctx context.Context) error { return removeRules(ctx, h, family) }})
		}
	}
	if bridge := "/sys/class/net/" + taskBridge; h.Exists(bridge) {
		p = append(p, plan.Step{Op: "remove the bridge " + taskBridge, Why: n.Why, Tolerate: true,
			Do: func(ctx context.Context) error {
				if !h.Exists(bridge) {
					return nil
				}
				_, err := h.Run(ctx, host.Command{Argv: []string{"ip", "link", "delete", taskBridge}})
				return err
			}})
	}
	records, err := findCNIRecords(h.Root)
	if len(records) > 0 {
		p = append(p, plan.Step{Op: "remove the records for tasks in " + cniRecords, Why: n.Why, Tolerate: true, Do: func(context.Context) error {
			var errs []error
			for _, record := range records {
				errs = append(errs, os.RemoveAll(h.Path(record)))
			}
			return errors.Join(errs...)
		}})
	}
	return p, err
}

// findCNIRecords returns the records of tasks' addresses and interfaces. The record of a loopback
// interface has only the container in its name, and may be missing.
func findCNIRecords(r host.Root) ([]string, error) {
	records, err := r.Glob(cniRecords + "/networks/concourse")
	results, err2 := r.Glob(cniRecords + "/results/concourse-*-*")
	for _, result := range results {
		container := strings.TrimPrefix(path.Base(result), "concourse-")
		container = container[:strings.LastIndex(container, "-")]
		if wellknown.IsHandle(container) { // otherwise it is of a network like concourse-x
			records = append(records, result, cniRecords+"/results/cni-loopback-"+container+"-lo")
		}
	}
	return records, errors.Join(err, err2)
}

// findTaskRules returns the input of iptables-restore that removes what is there for tasks, ""
// without any. If rules cannot be read, Concourse could not add any.
func findTaskRules(ctx context.Context, h host.Host, family string) string {
	if !h.Exists("/usr/sbin/" + family + "-save") {
		return ""
	}
	saved, err := h.Run(ctx, host.Command{Argv: []string{family + "-save"}, ReadOnly: true})
	if err != nil {
		return ""
	}
	return removeTaskRules(string(saved))
}

// removeRules reads the rules again, because tasks that ended since the plan took theirs along.
func removeRules(ctx context.Context, h host.Host, family string) error {
	changes := findTaskRules(ctx, h, family)
	if changes == "" {
		return nil
	}
	_, err := h.Run(ctx, host.Command{
		Argv: []string{family + "-restore", "--noflush", "--wait"}, Stdin: []byte(changes)})
	return err
}

// removeTaskRules returns the input of iptables-restore that removes the rules and chains of
// tasks from the output of iptables-save, "" without any.
func removeTaskRules(saved string) string {
	own, addresses := []string{taskChain}, []string{}
	for line := range strings.Lines(saved) {
		if strings.Contains(line, taskRule) && strings.HasPrefix(argument(line, "-j"), "CNI-") {
			own = append(own, argument(line, "-j"))
			if address := argument(line, "-s"); address != "" {
				addresses = append(addresses, address)
			}
		}
	}
	var b strings.Builder
	for table := range strings.SplitSeq(saved, "COMMIT\n") {
		if _, text, found := strings.Cut(table, "*"); found {
			b.WriteString(removeFromTable(strings.Split(strings.TrimSpace(text), "\n"), own, addresses))
		}
	}
	return b.String()
}

// removeFromTable returns the changes of one table, with its name as the first line. The chain
// of CNI is removed if it had only rules for tasks.
func removeFromTable(lines, own, addresses []string) string {
	mine := func(line string) bool {
		return argument(line, "-i") == taskBridge || argument(line, "-j") == taskChain ||
			strings.Contains(line, taskRule) || slices.Contains(addresses, argument(line, "-s")) ||
			slices.Contains(addresses, argument(line, "-d"))
	}
	inCNI := func(line string) bool { return argument(line, "-A") == cniChain }
	if slices.ContainsFunc(lines, func(l string) bool { return inCNI(l) && mine(l) }) &&
		!slices.ContainsFunc(lines, func(l string) bool { return inCNI(l) && !mine(l) }) {
		own = append(slices.Clone(own), cniChain)
	}
	var rules, flushed, removed string
	for _, line := range lines {
		name, isChain := strings.CutPrefix(line, ":")
		name, _, _ = strings.Cut(name, " ")
		switch {
		case isChain && slices.Contains(own, name):
			flushed, removed = flushed+"-F "+name+"\n", removed+"-X "+name+"\n"
		case slices.Contains(own, argument(line, "-A")): // flushed
		case mine(line) || slices.Contains(own, argument(line, "-j")):
			rules += "-D" + strings.TrimPrefix(line, "-A") + "\n"
		}
	}
	if rules+flushed == "" {
		return ""
	}
	return "*" + lines[0] + "\n" + rules + flushed + removed + "COMMIT\n"
}

// argument returns the word after a flag of a rule, "" without the flag.
func argument(rule, flag string) string {
	words := strings.Fields(rule)
	if i := slices.Index(words, flag); i >= 0 && i+1 < len(words) {
		return words[i+1]
	}
	return ""
}
