package amd

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// notKnown stands for what no source says.
const notKnown = "not known"

// WriteMatrix writes the table of releases as people read it in a terminal.
func WriteMatrix(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ROCm\tdate\tdriver\tpackages\tmodule\tUbuntu and kernels")
	for _, r := range Releases() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", r.ROCm, cmp.Or(r.Date, notKnown), r.Driver, r.InstallPackage+" "+cmp.Or(r.InstallVersion, notKnown), r.ModuleVersion(), r.kernels())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range Releases() {
		if _, err := fmt.Fprintf(w, "\n%s: %s.\n  checked against: %s\n", r.ROCm, r.Reason, r.Source); err != nil {
			return err
		}
	}
	return nil
}

func (r Release) kernels() string {
	if r.Unknown != "" {
		return "recognised, not installed"
	}
	var on []string
	for _, s := range r.Series {
		on = append(on, s+" "+strings.Join(r.KernelsOn(s), ", "))
	}
	return strings.Join(on, "; ")
}
