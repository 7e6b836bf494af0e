package rocm

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteMatrix writes the table of releases as people read it in a terminal.
func WriteMatrix(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ROCm\tdriver\tpackages\tmodule\ttoolkit\tUbuntu and kernels")
	for _, r := range Releases() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", r.name(), r.Driver, r.InstallPackage+" "+r.InstallVersion, r.DKMSVersion, r.ToolkitVersion, r.kernels())
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

func (r Release) name() string {
	if r.Default {
		return r.ROCm + " (default)"
	}
	return r.ROCm
}

func (r Release) kernels() string {
	var on []string
	for _, s := range r.Series {
		on = append(on, s+" "+strings.Join(r.KernelsOn(s), ", "))
	}
	return strings.Join(on, "; ")
}
